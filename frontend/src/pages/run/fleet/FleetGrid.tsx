import { type KeyboardEvent, memo, useRef, useState } from "react";
import { number, visible } from "@/format";
import { tally, type WorkerHealth } from "@/pages/run/fleet/health";
import type { Tone } from "@/theme/chips";
import css from "./fleet.module.css";

type TileProps = {
  index: number;
  tone: Tone;
  sign: string;
  label: string;
  isChosen: boolean;
  isStop: boolean;
  onChoose: (index: number) => void;
};

/** Tiles render only when their content changes: of 2,000, a report updates a few. */
const Tile = memo(function Tile({ index, tone, sign, label, isChosen, isStop, onChoose }: TileProps) {
  return (
    <button
      type="button"
      className={`${css.tile} tone-${tone}`}
      data-tile={index}
      aria-pressed={isChosen}
      aria-label={label}
      title={label}
      tabIndex={isStop ? 0 : -1}
      onClick={() => onChoose(index)}
    >
      <span aria-hidden="true">{sign}</span>
      <span className={css.tileIndex}>{index}</span>
    </button>
  );
});

function columnsOf(tiles: HTMLElement[]): number {
  const top = tiles[0]?.offsetTop;
  const next = tiles.findIndex((tile) => tile.offsetTop !== top);
  return next === -1 ? tiles.length : next;
}

/** The tile that an arrow key leads to from index `at`; null for other keys. */
function target(key: string, at: number, tiles: HTMLElement[]): number | null {
  const steps: Record<string, () => number> = {
    ArrowRight: () => at + 1,
    ArrowLeft: () => at - 1,
    ArrowDown: () => at + columnsOf(tiles),
    ArrowUp: () => at - columnsOf(tiles),
    Home: () => 0,
    End: () => tiles.length - 1,
  };
  return steps[key]?.() ?? null;
}

type Props = { found: readonly WorkerHealth[]; chosen: number | undefined; onChoose: (index: number) => void };

/** Every worker as a tile, the worst first, with its health as colour and symbol. */
export function FleetGrid({ found, chosen, onChoose }: Props) {
  const [stop, setStop] = useState<number | undefined>(chosen);
  const box = useRef<HTMLDivElement>(null);
  const first = found.some(({ worker }) => worker.index === stop) ? stop : found[0]?.worker.index;
  const move = (event: KeyboardEvent) => {
    const tiles = [...(box.current?.querySelectorAll<HTMLElement>("[data-tile]") ?? [])];
    const at = tiles.indexOf(event.target as HTMLElement);
    const to = at === -1 ? null : target(event.key, at, tiles);
    const tile = to === null ? undefined : tiles[to];
    if (to === null) return;
    event.preventDefault();
    if (!tile) return;
    setStop(Number(tile.dataset.tile));
    tile.focus();
  };
  return (
    <>
      <ul className={css.legend} aria-label="Worker health">
        {tally(found).map(({ word, tone, sign, count }) => (
          <li key={word} className="small">
            <span className={`tone-${tone} ${css.sign}`} aria-hidden="true">
              {sign}
            </span>{" "}
            <b>{number(count)}</b> {word}
          </li>
        ))}
      </ul>
      <div ref={box} className={css.grid} role="group" aria-label="Workers, worst first" onKeyDown={move}>
        {found.map(({ worker, tone, sign, word, why }) => (
          <Tile
            key={worker.index}
            index={worker.index}
            tone={tone}
            sign={sign}
            label={`Worker ${worker.index}, ${word}${why ? `: ${visible(why)}` : ""}`}
            isChosen={worker.index === chosen}
            isStop={worker.index === first}
            onChoose={onChoose}
          />
        ))}
      </div>
    </>
  );
}
