"""URLs of the buffer's REST API."""

from django.urls import path

from buffer.archive import api
from buffer.batches.api import batches, queues
from buffer.capture import api as captures
from buffer.followers import api as followers
from buffer.ingest import api as ingest
from buffer.inspect.api import fragments, group_contents, groups, marks
from buffer.items import api as items_api
from buffer.payloads import api as segments
from buffer.replay import api as replay
from buffer.tensors import api as tensors
from buffer.tokenizers import api as tokenizers

urlpatterns = [
    path("limits", items_api.LimitsView.as_view()),
    path("segments", segments.SegmentsView.as_view()),
    path("runs/<slug:run>/groups", ingest.GroupPushView.as_view()),
    path("runs/<slug:run>/groups/discard", marks.GroupDiscardsView.as_view()),
    path("runs/<slug:run>/groups/export", api.GroupExportView.as_view()),
    path("runs/<slug:run>/groups/<large:group>", groups.GroupView.as_view()),
    path("runs/<slug:run>/groups/<large:group>/content", group_contents.GroupContentView.as_view()),
    path("runs/<slug:run>/groups/<large:group>/sequences", group_contents.SequencesView.as_view()),
    path(
        "runs/<slug:run>/groups/<large:group>/sequences/<small:sequence>",
        group_contents.SequenceView.as_view(),
    ),
    path(
        "runs/<slug:run>/groups/<large:group>/sequences/<small:sequence>/messages",
        group_contents.MessagesView.as_view(),
    ),
    path("runs/<slug:run>/marks", marks.MarksView.as_view()),
    path("runs/<slug:run>/fragments", ingest.FragmentPushView.as_view()),
    path("runs/<slug:run>/fragments/<large:fragment>", fragments.FragmentView.as_view()),
    path("runs/<slug:run>/fragments/<large:fragment>/steps", fragments.StepsView.as_view()),
    path("runs/<slug:run>/fragments/fetch", batches.FetchFragmentsView.as_view()),
    path("runs/<slug:run>/fragments/ack", batches.AckFragmentsView.as_view()),
    path("runs/<slug:run>/fragments/priorities", replay.PrioritiesView.as_view()),
    path("runs/<slug:run>/batches", batches.BatchesView.as_view()),
    path("runs/<slug:run>/batches/next", batches.NextBatchView.as_view()),
    path("runs/<slug:run>/batches/preview", queues.PreviewView.as_view()),
    path("runs/<slug:run>/mixing", queues.MixingView.as_view()),
    path("runs/<slug:run>/batches/<uuid:batch>/release", batches.ReleaseView.as_view()),
    path("runs/<slug:run>/batches/<uuid:batch>/discard", batches.DiscardView.as_view()),
    path("runs/<slug:run>/batches/<uuid:batch>/items", queues.BatchItemsView.as_view()),
    path("runs/<slug:run>/environments/push-rates", queues.PushRatesView.as_view()),
    path("runs/<slug:run>/queue", queues.QueueView.as_view()),
    path("runs/<slug:run>/batches/<uuid:batch>", batches.BatchView.as_view()),
    path("runs/<slug:run>/batches/<str:batch>/ack", batches.AckBatchView.as_view()),
    path("runs/<slug:run>/archives", api.ArchivesView.as_view()),
    path("runs/<slug:run>/archives/<small:archive>", api.ArchiveView.as_view()),
    path("runs/<slug:run>/archives/<small:archive>/file", api.ArchiveFileView.as_view()),
    path("runs/<slug:run>/restorations", api.RestorationsView.as_view()),
    path("runs/<slug:run>/followers", followers.FollowersView.as_view()),
    path("runs/<slug:run>/followers/<slug:follower>", followers.FollowerView.as_view()),
    path("runs/<slug:run>/followers/<slug:follower>/fetch", followers.FetchFollowedView.as_view()),
    path("runs/<slug:run>/followers/<slug:follower>/ack", followers.AckFollowedView.as_view()),
    path("runs/<slug:run>/captures", captures.CapturesView.as_view()),
    path("runs/<slug:run>/capture-scores", captures.ScoresView.as_view()),
    path("runs/<slug:run>/captures/<slug:session>", captures.CaptureView.as_view()),
    path("runs/<slug:run>/captures/<slug:session>/calls", captures.CapturedCallsView.as_view()),
    path("runs/<slug:run>/tensors", tensors.TensorsView.as_view()),
    path("runs/<slug:run>/tensors/read", tensors.ReadTensorsView.as_view()),
    path("runs/<slug:run>/tensors/delete", tensors.DeleteTensorsView.as_view()),
    path("runs/<slug:run>/tensors/move", tensors.MoveTensorsView.as_view()),
    path("runs/<slug:run>/tokenizer", tokenizers.TokenizerView.as_view()),
    path("runs/<slug:run>/tokenizer/file", tokenizers.TokenizerFileView.as_view()),
    path("runs/<slug:run>/ledger", queues.LedgerView.as_view()),
    path("runs/<slug:run>/bias", queues.BiasView.as_view()),
]
