import { Button, TextInput } from "@mantine/core";
import { useState } from "react";
import { TAKES_OPERATOR, useMayOperate } from "@/api/session";
import { ErrorState } from "@/components/ErrorState";
import { useAnnotate } from "@/pages/run/annotations";
import type { PointDetails } from "@/pages/run/metrics/pointDetails";
import classes from "./metrics.module.css";

/** Annotate a point with a short text that all charts of the run show. */
export function AnnotatePoint({ run, details }: { run: string; details: PointDetails }) {
  const [text, setText] = useState("");
  const annotate = useAnnotate(run);
  const mayOperate = useMayOperate();
  const send = () => {
    const { ended_at: at, step, amount } = details;
    annotate.mutate({ text, at, step, amount, reason: "" }, { onSuccess: () => setText("") });
  };
  return (
    <form
      className={classes.write}
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) send();
      }}
    >
      <TextInput
        size="xs"
        label="Annotation"
        description="Shown at this point on every chart of the run."
        placeholder="halved the learning rate"
        maxLength={200}
        disabled={!mayOperate}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Button
        className="beside-box"
        type="submit"
        size="xs"
        variant="default"
        disabled={!mayOperate || !text.trim()}
        loading={annotate.isPending}
        title={mayOperate ? undefined : TAKES_OPERATOR}
      >
        Add annotation
      </Button>
      {annotate.error && <ErrorState title="Annotation not added" error={annotate.error} />}
    </form>
  );
}
