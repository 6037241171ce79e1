import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useMayOperate } from "@/api/session";
import { Command } from "@/components/Copying";
import { PlaceLink } from "@/components/PlaceLink";
import css from "./home.module.css";

function Way({ title, children, command, action }: { title: string; children: ReactNode; command?: string; action?: ReactNode }) {
  return (
    <section className={`panel ${css.way}`} aria-label={title}>
      <h2>{title}</h2>
      <p className="soft">{children}</p>
      {command && <Command text={command} />}
      {action}
    </section>
  );
}

/** The first steps on a deck that has no runs: see one learn, launch one, bring one's own. */
export function Start() {
  const mayOperate = useMayOperate();
  return (
    <div className={css.ways}>
      <Way title="Look around" command="make seed">
        Fill the deck with a dozen runs: one live, one that failed, a sweep, lessons, batches in every state. Nothing has to be trained.
      </Way>
      <Way
        title="Launch a run"
        action={
          mayOperate ? (
            <Button component={PlaceLink} to="/runs/new?preset=cartpole">
              Launch CartPole
            </Button>
          ) : (
            <span className="faint small">Operators launch runs.</span>
          )
        }
      >
        The form knows every field. CartPole learns on a laptop within two minutes.
      </Way>
      <Way
        title="Bring your own"
        action={
          <Button component={Link} to="/tokens" variant="default">
            Get a token
          </Button>
        }
      >
        Point a trainer or an unmodified Atropos environment at this deck: the lines to paste are beside the token.
      </Way>
    </div>
  );
}
