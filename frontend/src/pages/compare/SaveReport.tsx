import { Button, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { type Comparison, type KeepComparison, useKeepComparison } from "@/api/comparisons";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { ReasonDialog } from "@/components/ReasonDialog";

type Props = { look: () => KeepComparison["look"]; onKept: (kept: Comparison) => void };

function Ask({ look, onKept, onClose }: Props & { onClose: () => void }) {
  const keep = useKeepComparison();
  const [name, setName] = useState("");
  const [remarks, setRemarks] = useState("");
  const submit = (reason: string) =>
    keep.mutate(
      { name: name.trim(), remarks, look: look(), reason },
      {
        onSuccess: (kept) => {
          onClose();
          onKept(kept);
        },
      },
    );
  return (
    <ReasonDialog
      title="Save report"
      asking={keep}
      refused="The report was not kept"
      submit="Save report"
      isReady={name.trim() !== ""}
      onSubmit={submit}
      onClose={onClose}
    >
      <p className="small soft">
        It keeps which runs, curves and ranges stand here, for everybody. Its address shows the runs as they go on; its file holds them as
        they are when it is downloaded, and opens without this deck.
      </p>
      <TextInput
        label="Name"
        required
        maxLength={120}
        value={name}
        data-autofocus
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Textarea
        mt="sm"
        label="Remarks"
        description="What it shows, in your words."
        autosize
        minRows={3}
        maxLength={20_000}
        value={remarks}
        onChange={(event) => setRemarks(event.currentTarget.value)}
      />
    </ReasonDialog>
  );
}

/** Keep what is compared, under a name. */
export function SaveReport(props: Props) {
  const mayOperate = useMayOperate();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button
        size="compact-sm"
        variant="default"
        disabled={!mayOperate}
        title={mayOperate ? "Keep this comparison under a name, and as a file" : TAKES_OPERATOR}
        onClick={() => setOpen(true)}
      >
        Save report…
      </Button>
      {isOpen && <Ask {...props} onClose={() => setOpen(false)} />}
    </>
  );
}
