import { Button, TextInput } from "@mantine/core";
import { ChevronDown, ChevronRight } from "lucide-react";
import type { Origin } from "@/forms/answers";
import { matching } from "@/forms/search";
import { FieldInputs } from "@/pages/launch/FieldInput";
import { NAME_FIELD, NAME_HELP, type TierSection } from "@/pages/launch/tiers";
import type { LaunchState } from "@/pages/launch/useLaunch";
import css from "./tiers.module.css";

type Props = { state: LaunchState; origin: Origin };

/** The run's name and the essential fields of its configuration. */
export function EssentialsPanel({ state, origin }: Props) {
  const { tiers, query, errors } = state;
  const showsName = matching([NAME_FIELD], query).length > 0;
  if (!showsName && tiers.essentials.length === 0) return null;
  return (
    <fieldset className="panel section">
      <legend>Essentials</legend>
      <div className="fields">
        {showsName && (
          <TextInput
            label="Name"
            description={NAME_HELP}
            data-field="name"
            data-autofocus
            value={state.name}
            error={errors.fields.name}
            onChange={(event) => state.setName(event.currentTarget.value)}
          />
        )}
        <FieldInputs fields={tiers.essentials} state={state} origin={origin} />
      </div>
      {state.isTouched && (
        <p className="small soft draft">
          Unsaved draft; stored in this browser until launch.{" "}
          <Button variant="subtle" size="compact-xs" onClick={state.reset}>
            Discard
          </Button>
        </p>
      )}
    </fieldset>
  );
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** A section of further fields; closed unless opened, searched, or with an error when it appeared. */
function SectionPanel({ section, state, origin }: Props & { section: TierSection }) {
  const { name, title, help, fields, changed, wrong } = section;
  const id = `section-${name.replaceAll(".", "-") || "rest"}`;
  const isSearched = state.query !== "";
  const isOpen = isSearched || state.open.includes(name);
  const toggle = () => state.setOpen((old) => (isOpen ? old.filter((each) => each !== name) : [...old, name]));
  return (
    <section className={`panel ${css.tier}`} data-section={name}>
      <h2>
        <button
          type="button"
          id={`${id}-head`}
          className={css.tierHead}
          aria-expanded={isOpen}
          aria-controls={isOpen ? id : undefined}
          aria-disabled={isSearched || undefined}
          onClick={() => !isSearched && toggle()}
        >
          {isOpen ? <ChevronDown size={16} aria-hidden /> : <ChevronRight size={16} aria-hidden />}
          <span>{title}</span> <span className={`small ${css.tierCount}`}>{counted(fields.length, "field")}</span>{" "}
          {changed > 0 && <span className={`small held ${css.tierCount}`}>{changed} changed</span>}{" "}
          {wrong > 0 && <span className={`small bad ${css.tierCount}`}>{counted(wrong, "error")}</span>}
        </button>
      </h2>
      {isOpen && (
        <div id={id} role="group" aria-labelledby={`${id}-head`} className={css.tierBody}>
          {help && <p className="soft small section-help">{help}</p>}
          <div className="fields">
            <FieldInputs fields={fields} state={state} origin={origin} />
          </div>
        </div>
      )}
    </section>
  );
}

/** The sections of the fields that are not essential. */
export function SectionPanels({ state, origin }: Props) {
  const { sections } = state.tiers;
  const names = sections.map(({ name }) => name);
  const areOpen = names.length > 0 && names.every((name) => state.open.includes(name));
  return (
    <>
      {state.query === "" && (
        <div className={css.more}>
          <h2>More settings</h2>
          <span className="spacer" />
          <button type="button" className="link-button small" onClick={() => state.setOpen(areOpen ? [] : names)}>
            {areOpen ? "Close all" : "Open all"}
          </button>
        </div>
      )}
      {sections.map((section) => (
        <SectionPanel key={section.name} section={section} state={state} origin={origin} />
      ))}
    </>
  );
}
