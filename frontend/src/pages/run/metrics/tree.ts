/** Build a tree of metric names, split at slashes and dots. Pure. */

export type Leaf = { kind: "leaf"; path: string; label: string };
export type Branch = { kind: "branch"; path: string; label: string; count: number; children: (Branch | Leaf)[] };
export type Row = { path: string; label: string; depth: number; count: number; isBranch: boolean; isOpen: boolean };

type Growing = { branches: Map<string, Growing>; leaves: Leaf[]; path: string; label: string };

const grow = (path: string, label: string): Growing => ({ branches: new Map(), leaves: [], path, label });

/** The parts of a name, each with its trailing slash or dot: `train/` `loss`. */
export function partsOf(name: string): string[] {
  return name.match(/[^/.]*[/.]|[^/.]+$/g) ?? [name];
}

function settle(node: Growing): Branch {
  const branches = [...node.branches.values()].map(settle).map(shortened);
  const children = [...branches, ...node.leaves].sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  const count = children.reduce((sum, child) => sum + (child.kind === "branch" ? child.count : 1), 0);
  return { kind: "branch", path: node.path, label: node.label, count, children };
}

/** Merge a branch with its only child into one row. */
function shortened(branch: Branch): Branch {
  const only = branch.children.length === 1 ? branch.children[0] : undefined;
  return only?.kind === "branch" ? { ...only, label: branch.label + only.label } : branch;
}

export function treeOf(names: readonly string[]): Branch {
  const root = grow("", "");
  for (const name of names) {
    const parts = partsOf(name);
    let node = root;
    for (const part of parts.slice(0, -1)) {
      const next = node.branches.get(part) ?? grow(node.path + part, part);
      node.branches.set(part, next);
      node = next;
    }
    node.leaves.push({ kind: "leaf", path: name, label: parts.at(-1) ?? name });
  }
  return settle(root);
}

/** The visible rows of a tree: children only of open branches. */
export function rowsOf(tree: Branch, isOpen: (path: string) => boolean, depth = 0): Row[] {
  return tree.children.flatMap((child): Row[] => {
    if (child.kind === "leaf") return [{ path: child.path, label: child.label, depth, count: 1, isBranch: false, isOpen: false }];
    const open = isOpen(child.path);
    const row = { path: child.path, label: child.label, depth, count: child.count, isBranch: true, isOpen: open };
    return open ? [row, ...rowsOf(child, isOpen, depth + 1)] : [row];
  });
}

/** Names that contain every word, case-insensitive. */
export function withWords(names: readonly string[], words: string): readonly string[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return wanted.length === 0 ? names : names.filter((name) => wanted.every((word) => name.toLowerCase().includes(word)));
}
