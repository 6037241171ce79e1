import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { licencesQuery } from "@/api/deployment";
import { Dialog } from "@/components/Dialog";
import { ErrorState } from "@/components/ErrorState";
import { Skeletons } from "@/components/Skeletons";
import { Table } from "@/components/Table";
import { count, visible } from "@/format";

function Listed() {
  const { data, error } = useQuery(licencesQuery);
  if (error) return <ErrorState title="Licences unavailable" error={error} />;
  if (!data) return <Skeletons heights={[240]} />;
  return (
    <>
      <p className="small soft">
        Rolldeck is licensed under {visible(data.own)}. It includes {count(data.results.length)} packages under these licences:
      </p>
      <Table label="Packages and their licences" columns={["Package", "Licence", { label: "Used in", className: "wide-only" }]}>
        {data.results.map(({ name, version, licence, part }) => (
          <tr key={`${part} ${name} ${version}`}>
            <td className="anywhere">
              {visible(name)} <span className="faint small">{visible(version)}</span>
            </td>
            <td className="anywhere">{visible(licence)}</td>
            <td className="wide-only soft">{part === "server" ? "server" : "dashboard"}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

/** Packages of the distribution with their licences. */
export function Licences() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button mt="sm" size="compact-sm" variant="default" onClick={() => setOpen(true)}>
        Licences
      </Button>
      {isOpen && (
        <Dialog onClose={() => setOpen(false)} size="46rem" title="Licences">
          <Listed />
        </Dialog>
      )}
    </>
  );
}
