import { TagsInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { valuesQuery } from "@/api/runLists";
import { useSetTags } from "@/api/runs";
import type { RunDetail } from "@/api/types";
import { ReasonDialog } from "@/components/ReasonDialog";
import { RECORDED_IN_EVENTS } from "@/components/recordedIn";

const TAGS_AT_MOST = 20;

/** Edit the tags of a run, with suggestions from other runs. */
export default function TagsDialog({ run, onClose }: { run: RunDetail; onClose: () => void }) {
  const [tags, setTags] = useState(run.tags);
  const [part, setPart] = useState("");
  const known = useQuery(valuesQuery("tag", part));
  const set = useSetTags(run.name);
  return (
    <ReasonDialog
      title={`Tags of ${run.name}`}
      asking={set}
      refused="Tags not saved"
      recordedIn={RECORDED_IN_EVENTS}
      submit="Save"
      isReady={[...tags].sort().join(" ") !== [...run.tags].sort().join(" ")}
      onSubmit={(reason) => set.mutate({ tags, reason }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <TagsInput
        label="Tags"
        description="Letters, digits and _.:/+-; Enter adds one."
        data={(known.data ?? []).map(({ value }) => value)}
        maxTags={TAGS_AT_MOST}
        openOnFocus={false}
        data-autofocus
        value={tags}
        searchValue={part}
        onSearchChange={setPart}
        onChange={setTags}
      />
    </ReasonDialog>
  );
}
