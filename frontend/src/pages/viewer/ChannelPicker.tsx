import { SegmentedControl } from "@mantine/core";
import { CHANNELS, type Channel, LABELS, LEGEND } from "@/pages/viewer/channels";
import styles from "@/pages/viewer/tokens.module.css";

/** The legend and selection of the token colours; `c` selects the next channel. */
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
