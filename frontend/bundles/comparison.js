"use strict";
/* Shows a comparison of runs that this page holds, with what viewer.js has for runs. */

const [WIDE, HIGH, PAD] = [640, 200, 4];
// Told apart by dashes too: colours alone are not for everybody.
const INKS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7a4fbf", "#b3261e"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

const inkOf = (place) => INKS[place % INKS.length];
const dashOf = (place) => DASHES[Math.floor(place / INKS.length) % DASHES.length];

function swatch(place) {
  const svg = make("svg", { class: "swatch", viewBox: "0 0 26 8", "aria-hidden": "true" });
  svg.append(make("path", { d: "M0 4H26", fill: "none", stroke: inkOf(place), "stroke-width": 2.5, "stroke-dasharray": dashOf(place) || null }));
  return svg;
}

/** The moving average without the pull towards zero at its beginning; a gap stays a gap. */
function smoothed(values, weight) {
  let [sum, total] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
}

/** Where values lie: plainly, or by their logarithm; what has none is left out. */
function scaleOf(values, isLog) {
  const placed = (value) => (value === null || (isLog && value <= 0) ? null : isLog ? Math.log10(value) : value);
  const [least, most] = extent(values.map(placed));
  const up = (value) => (most > least ? HIGH - PAD - ((placed(value) - least) / (most - least)) * (HIGH - 2 * PAD) : HIGH / 2);
  return { least, up, isShown: (value) => placed(value) !== null };
}

function overlay(name, lines, view, placeOf) {
  const shown = lines.filter((line) => !view.hidden.includes(line.run) && line.x.length);
  const drawn = shown.map((line) => ({ ...line, y: view.smooth ? smoothed(line.last, view.smooth) : line.last }));
  const [first, end] = extent(drawn.flatMap((line) => [line.x[0], line.x.at(-1)]));
  const values = drawn.flatMap((line) => line.y);
  const [bottom, top] = extent(values);
  const { least, up, isShown } = scaleOf(values, view.logarithmic.includes(name));
  const across = (x) => (end > first ? PAD + ((x - first) / (end - first)) * (WIDE - 2 * PAD) : WIDE / 2);
  const told = drawn.map((line) => `${line.run} ${number(line.last.findLast((value) => value !== null) ?? null)}`).join(", ");
  const svg = make("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}, last values: ${told || "none"}`, class: "overlay" });
  for (const line of least === null ? [] : drawn) {
    const points = line.x.map((x, i) => [x, line.y[i]]).filter(([, y]) => isShown(y)).map(([x, y]) => `${across(x).toFixed(2)} ${up(y).toFixed(2)}`);
    const ink = { stroke: inkOf(placeOf(line.run)), fill: "none", "stroke-width": 1.6, "vector-effect": "non-scaling-stroke", "stroke-dasharray": dashOf(placeOf(line.run)) || null };
    if (points.length) svg.append(make("path", { ...ink, "data-run": line.run, d: points.length === 1 ? `M${points[0]}h4` : `M${points.join("L")}` }));
  }
  const rows = lines.map((line) => {
    const { low, high } = columns(line);
    return [
      make("span", {}, swatch(placeOf(line.run)), " ", line.run),
      number(line.last.findLast((value) => value !== null) ?? null), number(extent(low)[0]), number(extent(high)[1]), number(line.samples),
    ];
  });
  const notes = [view.logarithmic.includes(name) ? "log axis" : "", view.smooth ? `smoothed by ${view.smooth}` : "", `over ${view.x === "amount" ? "data served" : view.x === "step" ? "train steps" : view.x === "time" ? "time" : "seconds since the run began"}`, first === null ? "" : `x from ${number(first)} to ${number(end)}, y from ${number(bottom)} to ${number(top)}`].filter(Boolean).join(", ");
  return make("section", { class: "panel", "data-metric": name, "aria-label": name }, make("h3", {}, name), svg, make("p", { class: "soft" }, notes), table(`Figures of ${name}`, ["run", "last", "least", "greatest", "samples"], rows, true));
}

/** Every leaf of a configuration by its path. */
function leaves(config, above = "") {
  return Object.entries(config ?? {}).flatMap(([key, value]) => {
    const path = above ? `${above}.${key}` : key;
    const isFolder = value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length;
    return isFolder ? leaves(value, path) : [[path, JSON.stringify(value)]];
  });
}

function configuration(runs, isAll) {
  const found = runs.map((run) => new Map(leaves(run.config)));
  const paths = [...new Set(found.flatMap((each) => [...each.keys()]))];
  const rows = paths.map((path) => [path, ...found.map((each) => each.get(path) ?? NOTHING)]);
  const shown = isAll ? rows : rows.filter(([, ...values]) => new Set(values).size > 1);
  const content = shown.length ? table("Configurations", ["field", ...runs.map((run) => run.name)], shown) : make("p", { class: "soft" }, "The configurations are equal.");
  return panel("config", isAll ? "Configurations" : "Different settings", content);
}

function showComparison() {
  const [about] = parts("comparison");
  if (!about) return;
  const { comparison, runs } = about;
  const { view } = comparison;
  const lines = parts("metric");
  const placeOf = (run) => Math.max(0, view.runs.indexOf(run));
  const facts = runs.map((run) => [make("span", {}, swatch(placeOf(run.name)), " ", run.name), run.status, run.kind, time(run.created_at), number(run.served_steps), (run.tags || []).join(", ")]);
  const charts = view.metrics.map((name) => overlay(name, lines.filter((line) => line.name === name), view, placeOf));
  document.getElementById("bundle").replaceChildren(
    make("header", {}, make("h1", {}, comparison.name), make("span", { class: "soft" }, "copied ", time(about.written_at), `, saved by ${comparison.created_by}`)),
    ...(parts("end").length ? [] : [make("p", { class: "warning", role: "alert" }, "The file is incomplete: its download was interrupted. The received parts are shown.")]),
    ...(about.missing.length ? [make("p", { class: "warning" }, `Deleted since: ${about.missing.join(", ")}`)] : []),
    ...(comparison.remarks ? [panel("remarks", "Remarks", make("pre", {}, comparison.remarks))] : []),
    panel("runs", "Runs", table("Runs", ["run", "state", "kind", "created", "batches served", "tags"], facts)),
    panel("metrics", "Metrics", charts.length ? charts : make("p", { class: "soft" }, "No metrics selected.")),
    configuration(runs, view.config === "all"),
  );
}

document.addEventListener("DOMContentLoaded", showComparison);
