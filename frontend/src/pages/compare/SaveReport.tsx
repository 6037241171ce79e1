import { Button, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { ReasonDialog } from "@/components/ReasonDialog";
import { type Comparison, type NewComparison, useSaveComparison } from "@/pages/compare/api";

type Props = { view: () => NewComparison["view"]; onSaved: (saved: Comparison) => void };

function Ask({ view, onSaved, onClose }: Props & { onClose: () => void }) {
  const save = useSaveComparison();
  const [name, setName] = useState("");
  const [remarks, setRemarks] = useState("");
  const submit = (reason: string) =>
    save.mutate(
      { name: name.trim(), remarks, view: view(), reason },
      {
        onSuccess: (saved) => {
          onClose();
          onSaved(saved);
        },
      },
    );
  return (
    <ReasonDialog
      title="Save report"
      asking={save}
      refused="Report not saved"
      submit="Save report"
      isReady={name.trim() !== ""}
      onSubmit={submit}
      onClose={onClose}
    >
      <p className="small soft">
        A report saves the selected runs, curves and ranges for all users. Its link shows current data. Its file is a snapshot that opens
        without a server.
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
        label="Description"
        description="What the report shows."
        autosize
        minRows={3}
        maxLength={20_000}
        value={remarks}
        onChange={(event) => setRemarks(event.currentTarget.value)}
      />
    </ReasonDialog>
  );
}

/** Save the comparison under a name. */
export function SaveReport(props: Props) {
  const mayOperate = useMayOperate();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button
        size="compact-sm"
        variant="default"
        disabled={!mayOperate}
        title={mayOperate ? "Save this comparison as a named report" : TAKES_OPERATOR}
        onClick={() => setOpen(true)}
      >
        Save report…
      </Button>
      {isOpen && <Ask {...props} onClose={() => setOpen(false)} />}
    </>
  );
}
