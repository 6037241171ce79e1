import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { visible } from "@/format";
import { cardsOf, type PresetCard, type StartPreset } from "@/forms/startPresets";
import css from "./launch.module.css";

const CARDS_AT_FIRST = 8;

function Card({ card, isChosen }: { card: PresetCard; isChosen: boolean }) {
  const { name, sentence, kind, needs, isSaved } = card;
  return (
    <li>
      <Link
        from="/runs/new"
        to="/runs/new"
        search={({ project }) => ({ project, preset: name })}
        className={css.card}
        aria-current={isChosen ? "page" : undefined}
        data-preset={name}
      >
        <span className={css.cardName}>{visible(name)}</span>
        <span className={css.cardTags}>
          <span className="tag">{kind}</span>
          {isSaved && <span className="tag">saved</span>}
        </span>
        <span className={`small soft anywhere ${css.cardSentence}`}>{visible(sentence)}</span>
        <span className="tiny faint anywhere">Needs {visible(needs)}</span>
      </Link>
    </li>
  );
}

/** The presets that the form may start from. */
export function PresetCards({ presets, chosen, onManage }: { presets: StartPreset[]; chosen: string | undefined; onManage: () => void }) {
  const cards = cardsOf(presets);
  const [showsAll, setShowsAll] = useState(false);
  const shown = showsAll ? cards : cards.filter(({ name }, at) => at < CARDS_AT_FIRST || name === chosen);
  return (
    <section aria-label="Presets">
      <div className={css.presetsHead}>
        <h2>Start from a preset</h2>
        <span className="spacer" />
        <button type="button" className="link-button small" onClick={onManage}>
          Saved presets
        </button>
      </div>
      <ul className={css.cards}>
        {shown.map((card) => (
          <Card key={card.name} card={card} isChosen={card.name === chosen} />
        ))}
      </ul>
      {shown.length < cards.length && (
        <Button mt="xs" size="compact-sm" variant="default" onClick={() => setShowsAll(true)}>
          Show all {cards.length} presets
        </Button>
      )}
    </section>
  );
}
