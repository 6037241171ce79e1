"use strict";
/* Shows the data that this page holds. Everything that a run wrote becomes text, never markup. */

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, EDGE] = [300, 96, 3];
const NOTHING = "–";
// What cannot be seen, or would act on the screen: written out by its number.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|\udb40[\udc00-\uddef]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function plain(text) {
  return String(text).replace(
    UNSEEN,
    (sign) => `\u27e8U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`,
  );
}

/** An element with attributes; children that are no elements become text. */
function make(name, attributes = {}, ...children) {
  const isDrawing = name === "svg" || name === "path" || name === "circle";
  const element = isDrawing ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : plain(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child instanceof Node ? child : plain(child));
  }
  return element;
}

function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  if (Math.abs(value) < 1e-3) return value.toExponential(digits - 1).replace(/\.?0*e/, "e");
  const decimals = Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-US", { maximumFractionDigits: decimals });
}

function time(iso) {
  if (!iso) return NOTHING;
  const at = new Date(iso);
  return make("time", { datetime: iso, title: `${at.toISOString().slice(0, 19).replace("T", " ")} UTC` }, at.toLocaleString("en-US"));
}

function parts(kind) {
  return [...document.querySelectorAll(`script[data-part="${kind}"]`)].map((block) => JSON.parse(block.textContent));
}

function panel(id, title, ...children) {
  return make("section", { class: "panel", id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), ...children);
}

/** A table of words; with `counts`, all but its first column are numbers. */
function table(name, columns, rows, counts = false) {
  const kind = (place) => ({ class: counts && place ? "number" : null });
  const heads = columns.map((one, place) => make("th", { scope: "col", ...kind(place) }, one));
  const body = rows.map((row) => make("tr", {}, row.map((cell, place) => make("td", kind(place), cell))));
  return make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": name }, make("table", { "aria-label": name }, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, body)));
}

function facts(run) {
  const known = {
    Kind: `${run.kind} run`,
    Preset: run.preset,
    Created: time(run.created_at),
    By: run.created_by,
    Epoch: number(run.epoch),
    "Policy version": run.policy_step === -2 ? "none" : run.policy_step === -1 ? "bootstrap" : number(run.policy_step),
    "Batches served": number(run.served_steps),
    "Batch size": number(run.batch_size),
    Workers: number(run.num_workers),
    "Maximum staleness": number(run.max_staleness),
    "Off-policy tolerance": number(run.off_policy_tolerance),
    Tags: (run.tags || []).join(", "),
  };
  const rows = Object.entries(known).filter(([, value]) => value && value !== NOTHING);
  return panel("facts", "The run", make("dl", {}, rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
}

const PLACES = ["accepted", "queued", "waiting", "leased", "served", "quarantined"];

function ledger(ledgers) {
  const rows = ledgers.map((one) => {
    const dropped = Object.entries(one.dropped);
    const sum = dropped.reduce((total, [, items]) => total + items, 0);
    const why = dropped.map(([reason, items]) => `${number(items)} ${reason.replaceAll("_", " ")}`).join(", ");
    const balance = one.balanced ? make("span", { class: "good" }, "✓ adds up") : make("span", { class: "bad" }, "✗ does not add up");
    return [
      one.environment ? `${one.kind} of ${one.environment}` : make("strong", {}, one.kind),
      ...PLACES.map((place) => number(one[place])),
      why ? `${number(sum)}: ${why}` : "0",
      balance,
    ];
  });
  return panel("ledger", "Ledger: accepted items by state", rows.length ? table("Ledger", ["items", ...PLACES, "dropped", "check"], rows, true) : make("p", { class: "soft" }, "No data accepted yet."));
}

/* Metrics. */

/** Least and greatest of each bucket, and the value that came last in it. */
function columns(line) {
  return line.is_exact ? { low: line.last, high: line.last, last: line.last } : { low: line.min, high: line.max, last: line.last };
}

function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : [null, null];
}

function draw(svg, line) {
  const { low, high, last } = columns(line);
  const [least] = extent(low);
  const [, most] = extent(high);
  if (least === null) return;
  const [first, end] = [line.x[0], line.x.at(-1)];
  const across = (x) => (end > first ? EDGE + ((x - first) / (end - first)) * (WIDTH - 2 * EDGE) : WIDTH / 2);
  const up = (value) => (most > least ? HEIGHT - EDGE - ((value - least) / (most - least)) * (HEIGHT - 2 * EDGE) : HEIGHT / 2);
  const places = line.x.map((_, place) => place).filter((place) => last[place] !== null);
  const point = (place, value) => `${across(line.x[place]).toFixed(2)} ${up(value).toFixed(2)}`;
  if (!line.is_exact) {
    const edges = [...places.map((place) => point(place, high[place])), ...places.toReversed().map((place) => point(place, low[place]))];
    svg.append(make("path", { class: "band", d: `M${edges.join("L")}Z` }));
  }
  if (places.length === 1) svg.append(make("circle", { class: "dot", cx: across(line.x[places[0]]), cy: up(last[places[0]]), r: 2.5 }));
  else svg.append(make("path", { class: "stroke", d: `M${places.map((place) => point(place, last[place])).join("L")}` }));
}

function chart(line) {
  const { low, high, last } = columns(line);
  const [least] = extent(low);
  const [, most] = extent(high);
  const newest = last.findLast((value) => value !== null) ?? null;
  const gaps = line.nans + line.infinities;
  const told = `last ${number(newest)} · min ${number(least)} · max ${number(most)}`;
  const range = line.x.length ? `steps ${number(line.x_first[0] ?? line.x[0])} to ${number(line.x.at(-1))}` : "no steps";
  const said = make("p", {}, told);
  const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${line.name}: ${told}, ${range}` });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = line.x[0] + ((event.clientX - box.left) / box.width) * (line.x.at(-1) - line.x[0]);
    const found = line.x.findIndex((end) => end >= x);
    const place = found < 0 ? line.x.length - 1 : found;
    const spread = line.is_exact ? "" : ` (${number(low[place])} … ${number(high[place])})`;
    said.textContent = `step ${number(line.x[place])}: ${number(last[place])}${spread}`;
  });
  svg.addEventListener("pointerleave", () => (said.textContent = told));
  const note = `${number(line.samples)} samples, ${range}${gaps ? `; ${number(gaps)} not finite` : ""}`;
  const figure = make("figure", { "data-metric": line.name, "data-last": newest, "data-min": least, "data-max": most, "data-samples": line.samples }, make("figcaption", {}, line.name), said, svg, make("p", { class: "soft" }, note));
  return { name: line.name.toLowerCase(), line, svg, figure };
}

function metrics(lines, total) {
  const charts = lines.map(chart);
  const bySvg = new Map(charts.map((one) => [one.svg, one]));
  // A chart is drawn when it comes into view: a run may have hundreds.
  const watcher = new IntersectionObserver((seen) => {
    for (const one of seen.filter((entry) => entry.isIntersecting)) {
      watcher.unobserve(one.target);
      draw(one.target, bySvg.get(one.target).line);
    }
  }, { rootMargin: "400px" });
  for (const one of charts) watcher.observe(one.svg);
  const count = make("p", { class: "soft", role: "status" });
  const tell = (shown) => (count.textContent = `${number(shown)} of ${number(total)} metrics${lines.length < total ? `; this file holds the first ${number(lines.length)}` : ""}`);
  const search = make("input", { type: "search", "aria-label": "Metrics that contain", placeholder: "Part of a name" });
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/);
    for (const one of charts) one.figure.hidden = !words.every((word) => one.name.includes(word));
    tell(charts.filter((one) => !one.figure.hidden).length);
  });
  tell(charts.length);
  if (!charts.length) return panel("metrics", "Metrics", make("p", { class: "soft" }, "This run has no metrics."));
  return panel("metrics", "Metrics over train steps", search, count, make("div", { class: "charts" }, charts.map((one) => one.figure)));
}

/* Groups. */

const TITLES = { reasoning: "Reasoning", tool_call: "Call", tool_result: "Result", other: "Other content" };

/** A part of a message, with the kind and the name of one that is no text. */
function part(one) {
  if (one.picture) return [make("p", { class: "soft" }, "A picture is not in this file.")];
  const title = [TITLES[one.kind], one.name].filter(Boolean).join(" ");
  return [title ? make("div", { class: "role soft" }, title) : null, one.text ? make("pre", {}, one.text) : null].filter(Boolean);
}

function message(one) {
  const further = one.characters - one.parts.reduce((sum, { text }) => sum + text.length, 0);
  return make(
    "article",
    { "aria-label": `Message ${one.index + 1}, ${one.role}` },
    make("div", { class: "role" }, one.role || "no role"),
    one.parts.flatMap(part),
    further > 0 ? make("p", { class: "soft" }, `${number(further)} further characters are not in this file`) : null,
    one.extra ? make("pre", { class: "soft" }, one.extra) : null,
  );
}

function surprise(logprob) {
  if (logprob === null || logprob === undefined || logprob > -2) return "";
  return logprob > -5 ? " odd" : " odder";
}

function tokens(window) {
  const spans = window.tokens.map((token, place) => {
    const logprob = window.logprobs?.[place] ?? null;
    const advantage = window.advantages?.[place] ?? null;
    const title = [`token ${window.start + place}, id ${token}`, window.is_own[place] ? "trained on" : "not trained on"];
    if (logprob !== null) title.push(`logprob ${number(logprob)}`);
    if (advantage !== null) title.push(`advantage ${number(advantage)}`);
    const kind = `${window.is_own[place] ? "own" : ""}${surprise(logprob)}`.trim();
    return make("span", { class: kind || null, title: title.join("\n") }, window.text ? window.text[place] : `${token} `);
  });
  const further = window.total - window.tokens.length;
  return [
    make("p", { class: "soft" }, "Tinted tokens are trained on. Warmer: lower probability under the policy; underlined: very low."),
    make("div", { class: "tokens" }, spans),
    further > 0 ? make("p", { class: "soft" }, `${number(further)} further tokens are not in this file`) : null,
  ];
}

/** Content that is made when it is opened. */
function opened(title, attributes, content) {
  const details = make("details", attributes, make("summary", {}, title));
  details.addEventListener("toggle", () => details.append(...content().flat().filter(Boolean)), { once: true });
  return details;
}

function sequence(one) {
  const { summary, conversation, window } = one;
  const marks = [`score ${number(summary.score)}`, `${number(summary.tokens)} tokens, ${number(summary.own_tokens)} trained on`];
  if (summary.advantage !== null) marks.push(`advantage ${number(summary.advantage)}`);
  if (summary.logprob !== null) marks.push(`mean logprob ${number(summary.logprob)}`);
  if (summary.is_truncated) marks.push("truncated");
  const further = conversation ? conversation.total - conversation.results.length : 0;
  return make(
    "section",
    { "aria-label": `Sequence ${summary.index}`, "data-sequence": summary.index },
    make("h3", {}, `Sequence ${summary.index}: ${marks.join(" · ")}`),
    conversation ? null : make("p", { class: "soft" }, "Too large for this file."),
    conversation?.results.map(message),
    further > 0 ? make("p", { class: "soft" }, `${number(further)} further messages are not in this file`) : null,
    window ? opened(`Tokens of sequence ${summary.index}`, {}, () => tokens(window)) : null,
  );
}

function group(one) {
  const scores = one.sequences.map((row) => row.summary.score).filter((score) => score !== null);
  const mean = scores.length ? scores.reduce((sum, score) => sum + score, 0) / scores.length : null;
  const title = [`Group ${one.id}`, one.lesson || one.environment, `${one.state}${one.drop_reason ? `: ${one.drop_reason.replaceAll("_", " ")}` : ""}`, `${number(one.total_sequences)} sequences`, `${number(one.tokens)} tokens`];
  if (mean !== null) title.push(`mean score ${number(mean)}`);
  if (one.step !== null) title.push(`served at step ${number(one.step)}`);
  if (one.policy_step !== null) title.push(`sampled at version ${number(one.policy_step)}`);
  title.push(...one.mark);
  return opened(title.join(" · "), { id: `group-${one.id}`, "data-group": one.id }, () => [
    make("p", { class: "soft" }, "came in ", time(one.received_at)),
    one.note ? make("p", { "data-note": true }, one.note) : null,
    one.missing ? make("p", { class: "soft" }, one.missing) : null,
    one.sequences.map(sequence),
    one.total_sequences > one.sequences.length && !one.missing ? make("p", { class: "soft" }, `${number(one.total_sequences - one.sequences.length)} further sequences are not in this file`) : null,
  ]);
}

function groups(found, isCut) {
  const note = isCut ? make("p", { class: "soft" }, "Further groups are omitted to limit the file's size.") : null;
  return panel("groups", `Groups (${number(found.length)})`, note, found.length ? found.map(group) : make("p", { class: "soft" }, "This file contains no groups."));
}

/* What people say of the run. */

function notes(found, marks) {
  const words = marks.map((one) => [one.kind, one.name, number(one.groups)]);
  return panel(
    "notes",
    "Notes and marks",
    found ? make("pre", { "data-notes": true }, found.text) : make("p", { class: "soft" }, "No notes."),
    found ? make("p", { class: "soft" }, `by ${found.author}, `, time(found.at)) : null,
    words.length ? table("Labels", ["kind", "name", "groups"], words) : null,
  );
}

function events(found) {
  const rows = found.map((one) => [time(one.at), make("span", {}, one.message || one.kind), one.reason || "", one.actor]);
  return panel("events", "Events, newest first", rows.length ? table("Events", ["time", "event", "reason", "actor"], rows) : make("p", { class: "soft" }, "No events."));
}

function show() {
  const main = document.getElementById("bundle");
  if (parts("comparison").length) return; // comparison.js shows these
  const [about] = parts("run");
  const [end] = parts("end");
  if (!about) {
    main.replaceChildren(make("p", { class: "warning", role: "alert" }, "The file contains no run: its download was interrupted."));
    return;
  }
  const { run } = about;
  const hasNotes = Boolean(about.notes) || about.marks.length > 0;
  const sections = [
    facts(run),
    ...(hasNotes ? [notes(about.notes, about.marks)] : []),
    ledger(about.ledgers),
    metrics(parts("metric"), about.metrics),
    groups(parts("group"), end?.is_cut),
    events(about.events),
    panel("config", "Configuration", make("pre", {}, JSON.stringify(run.config, null, 2))),
  ];
  const links = { facts: "Run", ...(hasNotes ? { notes: "Notes" } : {}), ledger: "Ledger", metrics: "Metrics", groups: "Groups", events: "Events", config: "Configuration" };
  main.replaceChildren(
    make("header", {}, make("h1", {}, run.name), make("span", { class: "chip", "data-status": run.status }, run.status), run.status_reason ? make("span", {}, `“${run.status_reason}”`) : null, make("span", { class: "soft" }, "copied ", time(about.written_at))),
    ...(end ? [] : [make("p", { class: "warning", role: "alert" }, "The file is incomplete: its download was interrupted. The received parts are shown.")]),
    make("nav", { "aria-label": "Parts" }, Object.entries(links).map(([id, name]) => make("a", { href: `#${id}` }, name))),
    ...sections,
  );
  const wanted = location.hash.startsWith("#group-") ? document.getElementById(location.hash.slice(1)) : null;
  if (wanted) {
    wanted.open = true;
    wanted.scrollIntoView();
  }
}

document.addEventListener("DOMContentLoaded", show);
