/** The YAML editor of a configuration; loaded on demand, with CodeMirror. */

import { autocompletion, type CompletionContext, closeBrackets, completionKeymap, startCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useId, useRef } from "react";
import { completionsAt } from "@/forms/completion";
import type { JsonSchema } from "@/forms/schema";
import type { Place } from "@/forms/yaml";

const COLOURS = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
    { tag: [tags.string, tags.content], color: "var(--ink)" },
    { tag: tags.comment, color: "var(--ink-faint)" },
    { tag: [tags.punctuation, tags.separator, tags.bracket], color: "var(--ink-soft)" },
  ]),
);
const LOOK = EditorView.theme({
  "&": { maxHeight: "70vh", background: "var(--panel)", color: "var(--ink)", fontSize: "var(--mantine-font-size-sm)" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { background: "var(--panel-sunk)", color: "var(--ink-faint)", borderRightColor: "var(--line)" },
  ".cm-activeLine": { background: "color-mix(in srgb, var(--accent) 5%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--accent) 25%, transparent)",
  },
  ".cm-tooltip": { background: "var(--panel)", color: "var(--ink)", borderColor: "var(--line-strong)", maxWidth: "24rem" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--panel)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap" },
});

export type LineError = Place & { message: string };
type Props = {
  text: string;
  label: string;
  schema: JsonSchema;
  /** Further values by path, such as registered environments. */
  names: Record<string, string[]>;
  errors: LineError[];
  /** A place to select and focus; each new object is followed once. */
  target: Place | null;
  isReadOnly?: boolean;
  onChange: (text: string) => void;
};

/** The range inside the text; one character at least, on one line. */
function within(text: string, { from, to }: Place): Place {
  const start = Math.min(from, text.length);
  const end = text.indexOf("\n", start);
  return { from: start, to: Math.max(start, Math.min(to, end < 0 ? text.length : end)) };
}

export function ConfigEditor({ text, label, schema, names, errors, target, isReadOnly = false, onChange }: Props) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const given = useRef({ schema, names, onChange });
  given.current = { schema, names, onChange };
  const hint = useId();

  // The editor is created once; later texts are dispatched.
  useEffect(() => {
    if (!parent.current) return;
    const complete = ({ state, pos, explicit }: CompletionContext) => {
      const found = completionsAt(state.doc.toString(), pos, given.current.schema, given.current.names);
      if (!found || (!explicit && found.from === pos)) return null;
      const options = found.options.map(({ insert, ...option }) => ({
        ...option,
        type: "property",
        apply: insert,
      }));
      return { from: found.from, options, validFor: /^[\w.:/-]*$/ };
    };
    const created = new EditorView({
      parent: parent.current,
      doc: text,
      extensions: [
        lineNumbers(),
        foldGutter(),
        lintGutter(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        closeBrackets(),
        yaml(),
        COLOURS,
        LOOK,
        autocompletion({ override: [complete] }),
        keymap.of([{ key: "Ctrl-Space", run: startCompletion }, ...completionKeymap, ...defaultKeymap, ...historyKeymap, ...foldKeymap]),
        keymap.of([...lintKeymap, indentWithTab]),
        EditorState.readOnly.of(isReadOnly),
        EditorView.contentAttributes.of({
          tabindex: "0",
          "data-mantine-stop-propagation": "true",
          "aria-label": label,
          "aria-describedby": hint,
        }),
        EditorView.updateListener.of((update) => update.docChanged && given.current.onChange(update.state.doc.toString())),
      ],
    });
    view.current = created;
    return () => created.destroy();
  }, []);

  useEffect(() => {
    const [editor, old] = [view.current, view.current?.state.doc.toString() ?? ""];
    if (!editor || old === text) return;
    // Only the part that differs is replaced, so that the cursor and the folds stay.
    let from = 0;
    while (from < text.length && text[from] === old[from]) from += 1;
    let tail = 0;
    while (tail < Math.min(text.length, old.length) - from && text.at(-1 - tail) === old.at(-1 - tail)) tail += 1;
    editor.dispatch({ changes: { from, to: old.length - tail, insert: text.slice(from, text.length - tail) } });
  }, [text]);

  useEffect(() => {
    if (!view.current) return;
    const found = errors.map((error): Diagnostic => ({ ...within(text, error), severity: "error", message: error.message }));
    view.current.dispatch(setDiagnostics(view.current.state, found));
  }, [errors, text]);

  useEffect(() => {
    if (!target || !view.current) return;
    const length = view.current.state.doc.length;
    view.current.dispatch({
      selection: { anchor: Math.min(target.from, length) },
      effects: EditorView.scrollIntoView(Math.min(target.from, length), { y: "center" }),
    });
    view.current.focus();
  }, [target]);

  return (
    <>
      <div ref={parent} />
      <p id={hint} className="tiny faint">
        Ctrl+Space completes keys and values. Tab indents; press Escape, then Tab to leave the editor.
      </p>
    </>
  );
}
