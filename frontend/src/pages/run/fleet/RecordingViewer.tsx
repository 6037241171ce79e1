import { Button, Code, Group, Slider } from "@mantine/core";
import { useInterval } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { problemOf } from "@/api/client";
import type { RecordingRow } from "@/api/types";
import { Dialog } from "@/components/Dialog";
import { type Fact, Facts } from "@/components/Facts";
import { ErrorState } from "@/components/panels";
import { number, policyStep, visible } from "@/format";
import { recordingUrl } from "@/pages/run/fleet/api";
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
  const last = (data?.length ?? 1) - 1;
  const player = useInterval(() => setAt((now) => Math.min(now + 1, last)), 1000 / Math.min(fps, MOST_FRAMES_PER_SECOND));
  const isPlaying = player.active && at < last;
  if (error && !data) return <ErrorState title="Recording unavailable" error={error} />;
  const play = () => {
    if (isPlaying) return player.stop();
    if (at >= last) setAt(0);
    player.start();
  };
  return (
    <>
      <Code block mih="12rem" mah="60vh" data-recorded>
        {data?.[at] ?? ""}
      </Code>
      <Group gap="sm" mt="sm" wrap="nowrap">
        <Button size="xs" variant="default" onClick={play}>
          {isPlaying ? "Pause" : "Play"}
        </Button>
        <Slider flex={1} min={0} max={Math.max(last, 1)} value={at} onChange={setAt} label={null} thumbLabel="Frame" />
        <span className="small soft nowrap">
          frame {at + 1} of {last + 1}
        </span>
      </Group>
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
        <video width="100%" src={url} controls autoPlay loop muted playsInline aria-label="Recorded episode" />
      ) : (
        <TextRecording url={url} fps={recording.frames_per_second ?? 10} />
      )}
      <Facts facts={facts} />
      {recording.note && <p className="small soft">Text only, no video: {visible(recording.note)}</p>}
    </Dialog>
  );
}
