import { Combobox, type ComboboxStore } from "@mantine/core";
import type { ReactElement } from "react";
import type { Offer } from "@/components/filter/suggest";
import { visible } from "@/format";

type Props = { store: ComboboxStore; field: ReactElement; list: Offer[]; onTake: (label: string) => void };

/** The input of a filter with the list of its completions. */
export function Completions({ store, field, list, onTake }: Props) {
  return (
    <Combobox store={store} onOptionSubmit={onTake} position="bottom-start" width="min(480px, calc(100vw - 2rem))" shadow="md">
      <Combobox.Target withExpandedAttribute>{field}</Combobox.Target>
      <Combobox.Dropdown hidden={list.length === 0}>
        <Combobox.Options mah={300} aria-label="Completions" style={{ overflowY: "auto" }}>
          {list.map((offer) => (
            <Combobox.Option key={offer.label} value={offer.label}>
              <span className="mono">{visible(offer.label)}</span> <span className="faint tiny">{offer.note}</span>
            </Combobox.Option>
          ))}
        </Combobox.Options>
      </Combobox.Dropdown>
    </Combobox>
  );
}
