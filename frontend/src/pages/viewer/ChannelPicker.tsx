import { SegmentedControl } from "@mantine/core";
import { CHANNELS, type Channel, LABELS, LEGEND } from "@/pages/viewer/channels";
import styles from "@/pages/viewer/tokens.module.css";

/** What the colours say, and the choice of another; `c` takes the next one. */
export function ChannelPicker({ channel, onChannel }: { channel: Channel; onChannel: (channel: Channel) => void }) {
  return (
    <>
      <SegmentedControl
        size="xs"
        aria-label="Colour tokens by"
        value={channel}
        onChange={(value) => onChannel(value as Channel)}
        data={CHANNELS.map((value) => ({ value, label: LABELS[value] }))}
      />
      <ul className={styles.legend} aria-label="Legend">
        {LEGEND[channel].map(([level, meaning]) => (
          <li key={meaning}>
            <span className={`${styles.token} ${styles.sample} ${level ? (styles[level] ?? "") : ""}`} aria-hidden="true">
              ab
            </span>
            {meaning}
          </li>
        ))}
      </ul>
    </>
  );
}
