/** Find text in the parts of a transcript, across the elements of its markup. */

type Piece = { node: Text; start: number };

/** The matches in each element of a selector, in order, without regard to case; at most `most`. */
export function matchesIn(root: ParentNode, selector: string, needle: string, most = 1_000): Range[] {
  const found: Range[] = [];
  const wanted = needle.toLowerCase();
  if (!wanted) return found;
  for (const element of root.querySelectorAll(selector)) {
    const pieces: Piece[] = [];
    let text = "";
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode as Text;
      pieces.push({ node, start: text.length });
      text += node.data;
    }
    const lower = text.toLowerCase();
    // Lower case has another length in a few scripts, in which offsets would be wrong.
    const searched = lower.length === text.length ? lower : text;
    for (let at = searched.indexOf(wanted); at >= 0; at = searched.indexOf(wanted, at + wanted.length)) {
      found.push(rangeOf(pieces, at, at + wanted.length));
      if (found.length === most) return found;
    }
  }
  return found;
}

function rangeOf(pieces: Piece[], start: number, end: number): Range {
  const range = document.createRange();
  const first = pieces.findLast((piece) => piece.start <= start) as Piece;
  const last = pieces.findLast((piece) => piece.start < end) as Piece;
  range.setStart(first.node, start - first.start);
  range.setEnd(last.node, end - last.start);
  return range;
}

const MATCH = "transcript-match";
const CURRENT = "transcript-current";

/** Mark ranges where the browser can, and scroll to the current one; without ranges remove the marks. */
export function show(ranges: Range[], current: number): void {
  if ("highlights" in CSS) {
    CSS.highlights.set(MATCH, new Highlight(...ranges));
    const one = ranges[current];
    CSS.highlights.set(CURRENT, one ? new Highlight(one) : new Highlight());
  }
  const place = ranges[current]?.startContainer.parentElement;
  for (let fold = place?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
  place?.scrollIntoView({ block: "center" });
}
