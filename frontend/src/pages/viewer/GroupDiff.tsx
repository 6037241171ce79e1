import { SegmentedControl, TextInput } from "@mantine/core";
import { type ComponentProps, useState } from "react";
import type { ViewerSearch } from "@/pages/viewer/search";
import { type Side, sideOfLink } from "@/pages/viewer/sides";
import { TextDiff } from "@/pages/viewer/TextDiff";
import { TokenDiff } from "@/pages/viewer/TokenDiff";
import styles from "@/pages/viewer/tokens.module.css";

/** The field for the link of the sequence on the right. */
function LinkField({ onSide }: { onSide: (side: Side) => void }) {
  const [link, setLink] = useState("");
  const isOther = link.trim() !== "" && !sideOfLink(link);
  return (
    <TextInput
      size="xs"
      aria-label="Link of a group to compare with"
      placeholder="Link of another group"
      value={link}
      error={isOther && "Not a link of a group"}
      onChange={(event) => {
        const written = event.currentTarget.value;
        const side = sideOfLink(written);
        setLink(side ? "" : written);
        if (side) onSide(side);
      }}
      onKeyDown={(event) => event.stopPropagation()}
    />
  );
}

type Props = Omit<ComponentProps<typeof TokenDiff>, "look" | "onLook"> & {
  look: Pick<ViewerSearch, "order" | "first" | "unit">;
  onLook: (look: Pick<ViewerSearch, "order" | "first" | "unit">) => void;
  sides: { left: Side; right: Side };
  onSides: (sides: { left: Side; right: Side }) => void;
};

/** The differences of the sequences of a group: of two answers as text, or of all by tokens. */
export function GroupDiff({ sides, onSides, ...tokens }: Props) {
  const { list, look, onLook, run } = tokens;
  const hasText = list.has_messages || list.has_text;
  const isText = hasText && look.unit !== "tokens";
  return (
    <>
      {hasText && (
        <div className={styles.bar}>
          <SegmentedControl
            size="xs"
            aria-label="Compare"
            value={isText ? "text" : "tokens"}
            onChange={(unit) => onLook({ unit: unit === "tokens" ? "tokens" : undefined })}
            data={[
              { value: "text", label: "Text of two" },
              { value: "tokens", label: "Tokens of all" },
            ]}
          />
          {isText && <LinkField onSide={(right) => onSides({ ...sides, right })} />}
        </div>
      )}
      {isText ? <TextDiff run={run} {...sides} onChange={onSides} /> : <TokenDiff {...tokens} />}
    </>
  );
}
