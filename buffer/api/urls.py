"""Route the buffer's part of the REST API."""

from django.urls import path

from buffer.api import (
    archives,
    batches,
    followers,
    fragments,
    groups,
    ledger,
    limits,
    mixing,
    quarantine,
    replay,
    segments,
)

urlpatterns = [
    path("limits", limits.LimitsView.as_view()),
    path("segments", segments.SegmentsView.as_view()),
    path("runs/<slug:run>/groups", groups.GroupsView.as_view()),
    path("runs/<slug:run>/fragments", fragments.FragmentsView.as_view()),
    path("runs/<slug:run>/fragments/fetch", batches.FetchFragmentsView.as_view()),
    path("runs/<slug:run>/fragments/ack", batches.AckFragmentsView.as_view()),
    path("runs/<slug:run>/fragments/priorities", replay.PrioritiesView.as_view()),
    path("runs/<slug:run>/batches", batches.BatchesView.as_view()),
    path("runs/<slug:run>/batches/next", batches.NextBatchView.as_view()),
    path("runs/<slug:run>/batches/preview", mixing.PreviewView.as_view()),
    path("runs/<slug:run>/mixing", mixing.MixingView.as_view()),
    path("runs/<slug:run>/batches/<uuid:batch>/release", quarantine.ReleaseView.as_view()),
    path("runs/<slug:run>/batches/<uuid:batch>/discard", quarantine.DiscardView.as_view()),
    path("runs/<slug:run>/batches/<uuid:batch>", batches.BatchView.as_view()),
    path("runs/<slug:run>/batches/<str:batch>/ack", batches.AckBatchView.as_view()),
    path("runs/<slug:run>/archives", archives.ArchivesView.as_view()),
    path("runs/<slug:run>/archives/<small:archive>", archives.ArchiveView.as_view()),
    path("runs/<slug:run>/archives/<small:archive>/file", archives.ArchiveFileView.as_view()),
    path("runs/<slug:run>/restorations", archives.RestorationsView.as_view()),
    path("runs/<slug:run>/followers", followers.FollowersView.as_view()),
    path("runs/<slug:run>/followers/<slug:follower>", followers.FollowerView.as_view()),
    path("runs/<slug:run>/followers/<slug:follower>/fetch", followers.FetchFollowedView.as_view()),
    path("runs/<slug:run>/followers/<slug:follower>/ack", followers.AckFollowedView.as_view()),
    path("runs/<slug:run>/ledger", ledger.LedgerView.as_view()),
    path("runs/<slug:run>/bias", ledger.BiasView.as_view()),
]
