import { Button, Slider } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { problemOf } from "@/api/client";
import type { RecordingRow } from "@/api/types";
import { Dialog } from "@/components/Dialog";
import { type Fact, Facts } from "@/components/Facts";
import { ErrorState } from "@/components/panels";
import { number, policyStep, visible } from "@/format";
import { recordingUrl } from "@/pages/run/fleet/api";
import logCss from "@/pages/run/logs/logs.module.css";
import { frames } from "@/pages/run/logs/logText";

const MOST_FRAMES_PER_SECOND = 30;

/** A text recording with playback and a frame slider. */
function TextRecording({ url, fps }: { url: string; fps: number }) {
  const { data, error } = useQuery({
    queryKey: ["recording", url],
    queryFn: async () => {
      const answer = await fetch(url, { credentials: "same-origin" });
      if (!answer.ok) throw problemOf(answer.status, await answer.json().catch(() => undefined));
      return frames(await answer.text());
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  const [at, setAt] = useState(0);
  const [plays, setPlays] = useState(false);
  const last = (data?.length ?? 1) - 1;
  useEffect(() => {
    if (!plays) return;
    const rate = Math.min(fps, MOST_FRAMES_PER_SECOND);
    const timer = setInterval(() => setAt((now) => Math.min(now + 1, last)), 1000 / rate);
    return () => clearInterval(timer);
  }, [plays, last, fps]);
  useEffect(() => {
    if (at >= last) setPlays(false);
  }, [at, last]);
  if (error && !data) return <ErrorState title="Recording unavailable" error={error} />;
  return (
    <>
      <pre className={`${logCss.log} ${logCss.recordingText}`} data-recorded>
        {data?.[at] ?? ""}
      </pre>
      <div className={logCss.recordingControls}>
        <Button
          size="xs"
          variant="default"
          onClick={() => {
            if (at >= last) setAt(0);
            setPlays(!plays);
          }}
        >
          {plays ? "Pause" : "Play"}
        </Button>
        <Slider
          className={logCss.recordingSlider}
          min={0}
          max={Math.max(last, 1)}
          value={at}
          onChange={setAt}
          label={null}
          thumbLabel="Frame"
        />
        <span className="small soft nowrap">
          frame {at + 1} of {last + 1}
        </span>
      </div>
    </>
  );
}

type Props = { run: string; recording: RecordingRow; onClose: () => void };

/** A recorded episode with its return and metadata. */
export default function RecordingViewer({ run, recording, onClose }: Props) {
  const url = recordingUrl(run, recording.id);
  const facts: Fact[] = [
    ["Return", number(recording.episode_return)],
    ["Env steps", number(recording.episode_length)],
    ["Ended", recording.outcome],
    ["Policy version", policyStep(recording.policy_step)],
    ["Worker", `${recording.worker ?? "–"}, slot ${recording.slot ?? "–"}`],
    ["Frames", `${number(recording.frames)}${recording.frames_left_out > 0 ? `, ${number(recording.frames_left_out)} omitted` : ""}`],
  ];
  return (
    <Dialog onClose={onClose} size="lg" title={`Episode of ${visible(recording.environment)}`}>
      {recording.media_type === "video/webm" ? (
        // The recording has no sound, so it needs no captions.
        <video className={logCss.recording} src={url} controls autoPlay loop muted playsInline aria-label="Recorded episode" />
      ) : (
        <TextRecording url={url} fps={recording.frames_per_second ?? 10} />
      )}
      <Facts facts={facts} />
      {recording.note && <p className="small soft">Text only, no video: {visible(recording.note)}</p>}
    </Dialog>
  );
}
