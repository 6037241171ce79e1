import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { contentQuery, contentUrl, type SequenceList } from "@/api/groups";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { bytes, number, visible } from "@/format";
import styles from "@/pages/viewer/viewer.module.css";

const FIRST = 20_000;
const MOST = 1 << 19;

type Props = { run: string; group: number; list: SequenceList; sizeBytes: number };

/** The group as JSON as sent to a trainer, and its other fields. */
export function Raw({ run, group, list, sizeBytes }: Props) {
  const [characters, setCharacters] = useState(FIRST);
  const content = useQuery({ ...contentQuery(run, group, characters), placeholderData: (before) => before });
  const isCut = content.data !== undefined && content.data.length >= characters;
  return (
    <>
      {list.fields.length > 0 && (
        <dl className={styles.fields}>
          {list.fields.map((field) => (
            <div key={field.name}>
              <dt className="mono">{visible(field.name)}</dt>
              <dd>
                <pre className={styles.raw}>
                  {visible(field.text)}
                  {field.characters > field.text.length ? " …" : ""}
                </pre>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {content.isError && <ErrorState title="Content unavailable" error={content.error} />}
      {content.isPending && <Skeletons heights={[240]} />}
      {content.data !== undefined && (
        <pre className={styles.raw} tabIndex={0} role="group" aria-label="Content as JSON">
          {visible(content.data)}
        </pre>
      )}
      <div className={styles.rawFoot}>
        {isCut && characters < MOST && (
          <Button
            size="compact-sm"
            variant="default"
            loading={content.isFetching}
            onClick={() => setCharacters(Math.min(MOST, characters * 4))}
          >
            Show more
          </Button>
        )}
        {isCut && characters >= MOST && <span className="faint tiny">The first {number(MOST)} characters.</span>}
        <a href={contentUrl(run, group)} download>
          Download all
        </a>
        <span className="faint tiny">{bytes(sizeBytes)} as received</span>
      </div>
    </>
  );
}
