import styles from "@/pages/viewer/flags.module.css";

/** Flags of a group as labels. */
export function Flags({ flags }: { flags: string[] }) {
  return flags.map((flag) => (
    <span key={flag} className={styles.flag}>
      {flag.replaceAll("_", " ")}
    </span>
  ));
}
