// The live page: draws the status document that the service sends, at most once per second.
//
// Rule: data of records becomes text (textContent), never markup. Tables are changed cell by
// cell, so that focus, selection and a screen reader's place survive; each chart also has a table.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const count = new Intl.NumberFormat("en");
  const known = (value) => value !== undefined && value !== null;

  // Numbers as text; an unknown number is a dash.
  const number = (value) => (known(value) ? count.format(value) : "–");
  const percent = (value) => (known(value) ? `${(100 * value).toFixed(1)} %` : "–");
  const decimal = (value, digits = 3) => (known(value) ? value.toFixed(digits).replace("-", "−") : "–");
  const signed = (value, digits) => (value > 0 ? "+" : "") + decimal(value, digits);
  const power = (value) => value.toExponential(0).replace(/e\+(\d+)/, (_, n) => ` × 10${[...n].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("")}`);
  const clock = (ms) => (known(ms) ? new Date(ms).toLocaleTimeString("en-GB") : "–");
  const moment = (ms) => (known(ms) ? new Date(ms).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "–");
  const span = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    if (s < 100) return `${s} s`;
    if (s < 6000) return `${Math.round(s / 60)} min`;
    return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
  };
  const late = (seconds) => (seconds < 1 ? `${Math.round(1000 * seconds)} ms` : span(seconds));
  const words = (name) => name.replaceAll("_", " ");

  function make(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }
  function write(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  // Tables. A cell is text, or {text, kind (class), share, button, head}.
  function table(section, head, rows) {
    const element = section.querySelector("table");
    if (!element.tHead) {
      element.append(make("thead", {}, make("tr")), make("tbody"));
    }
    fill(element.tHead.rows[0], head.map((cell) => ({ head: "col", ...of(cell) })));
    const body = element.tBodies[0];
    rows.forEach((cells, i) => fill(body.rows[i] ?? body.insertRow(), cells.map(of)));
    while (body.rows.length > rows.length) body.deleteRow(-1);
  }
  const of = (cell) => (typeof cell === "object" && cell !== null ? cell : { text: String(cell) });
  function fill(row, cells) {
    cells.forEach((cell, i) => {
      const tag = cell.head ? "TH" : "TD";
      let node = row.cells[i];
      if (!node || node.tagName !== tag) {
        const fresh = make(tag);
        if (cell.head) fresh.scope = cell.head;
        node ? node.replaceWith(fresh) : row.append(fresh);
        node = fresh;
      }
      if (node.className !== (cell.kind ?? "")) node.className = cell.kind ?? "";
      if (cell.button) {
        if (!node.firstElementChild) node.replaceChildren(make("button", { type: "button" }));
        const button = node.firstElementChild;
        write(button, cell.text);
        button.setAttribute("aria-label", cell.label);
        button.onclick = cell.button;
      } else {
        write(node, cell.text);
      }
      if (known(cell.share)) node.style.setProperty("--share", cell.share);
    });
    while (row.cells.length > cells.length) row.deleteCell(-1);
  }
  const right = (text) => ({ text, kind: "number" });
  const minor = (cell) => ({ ...of(cell), kind: `${of(cell).kind ?? ""} minor` }); // hidden on a phone
  const name = (text) => ({ text: text === "" ? "(empty)" : text, kind: "name", head: "row" });

  // A list does not change while the pointer or focus is in it.
  const points = matchMedia("(hover: hover)");
  const held = (section) =>
    section.contains(document.activeElement) || (points.matches && section.querySelector(".scroll:hover"));

  // Charts, each drawn again when its width changes.
  const charts = new Map();
  function draw(place, data, options) {
    if (!place.clientWidth) return;
    if (!charts.has(place)) charts.set(place, new Chart(place));
    charts.get(place).show(data, options);
  }
  const widths = new Map();
  const fit = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (widths.get(target) === target.clientWidth) continue;
      widths.set(target, target.clientWidth);
      if (target.clientWidth) charts.get(target)?.draw();
    }
  });
  for (const place of document.querySelectorAll(".chart")) fit.observe(place);

  // Sections. Each is shown while it has data.
  function section(id, facts, put) {
    const element = $(id);
    element.hidden = !known(facts) || facts.length === 0;
    if (!element.hidden) put(element, facts);
  }

  let newest = null;
  let offset = 0; // of the service's clock, in ms
  const ago = (seconds) => (known(seconds) ? `${span((Date.now() + offset) / 1000 - seconds)} ago` : "not yet");

  function show(document_) {
    if (document_.page !== document.documentElement.dataset.page) return location.reload(); // a new version
    newest = document_;
    const shard = document_.shard;
    state(document_.state, document_.detail);
    choose(document_.shards, shard);
    $("empty").hidden = Boolean(shard);
    const worse = shard?.worse_than_guessing ?? shard?.only_one_class ?? shard?.unmet_labels;
    $("guessing").hidden = !known(worse);
    write($("guessing"), worse ?? "");
    if (!shard) {
      write($("empty"), `Nothing to show yet: ${[document_.state, document_.detail].filter(Boolean).join(": ")}.`);
      document.querySelector(".tiles").hidden = true;
      for (const each of document.querySelectorAll(".card")) each.hidden = true;
      return;
    }
    const began = shard.imported ? ` · began with ${shard.imported}: scores begin there` : "";
    write($("about"), `${shard.model} · headwater${began}`);
    tiles(shard);
    section("curve", shard.curve, curve);
    section("scores", shard.scores, scores);
    section("confusion", shard.confusion, confusion);
    section("classes", shard.classes, classes);
    section("calibration", shard.calibration, calibration);
    section("throughput", shard.throughput, throughput);
    section("labels", shard.labels, (s, labels) =>
      table(s, ["Outcome", right("Labels")], labels.map(([outcome, n]) => [name(words(outcome)), right(number(n))])));
    section("delay", shard.labelling, delay);
    section("reporters", shard.reporters, reporters);
    section("keys", shard.keys, keys);
    section("decisions", shard.decisions ?? shard.budget, shard.decisions ? decisions : budget);
    section("challengers", shard.contenders, challengers);
    section("experts", shard.experts, experts);
    strongest(shard);
    section("drift", shard.drift, drift);
    section("latest", shard.latest, latest);
    section("dead", shard.dead, dead);
    section("fields", shard.fields, fields);
    section("inputs", shard.inputs, inputs);
  }

  function state(now, detail = "", told = now) {
    const [said, more] = $("state").querySelectorAll("span > span");
    $("state").dataset.state = now;
    write(said, told); // read aloud when it changes; the detail can change every second
    write(more, detail && `: ${detail}`);
  }

  function choose(shards, shard) {
    const label = $("shards");
    label.hidden = shards.length < 2;
    const select = label.querySelector("select");
    const texts = shards.map((s) => `${s.number} · ${s.state} · ${percent(s.accuracy)}`);
    if (select.options.length !== shards.length) {
      select.replaceChildren(...shards.map((s) => make("option", { value: s.number })));
    }
    texts.forEach((text, i) => write(select.options[i], text));
    if (shard && document.activeElement !== select) select.value = shard.number;
  }
  $("shards").querySelector("select").onchange = (event) => {
    history.replaceState(null, "", `?shard=${event.target.value}`);
    if (newest) show(newest);
    connect();
  };

  function snapshot({ snapshot_at, snapshot_failures, snapshot_error }) {
    const age = known(snapshot_at) ? "old" : "none yet";
    if (!known(snapshot_error)) return age;
    const times = snapshot_failures === 1 ? "once" : `${number(snapshot_failures)} times`;
    return `${known(snapshot_at) ? "old; " : ""}failed ${times} since the start: ${snapshot_error}`;
  }

  function tiles(shard) {
    const of = Object.fromEntries(shard.scores.map((s) => [s.name, s]));
    const last = of.accuracy ?? {};
    const window_ = `last ${number(shard.window)}`;
    const best = Math.max(last.majority ?? 0, last.no_change ?? 0);
    const gain = known(last.last) ? (100 * (last.last - best)).toFixed(1) : null;
    const refused = (shard.refusals ?? []).reduce((sum, [, n]) => sum + n, 0);
    const rates = (shard.throughput?.rate ?? []).slice(-5);
    const rate = rates.length ? rates.reduce((a, b) => a + b) / rates.length : null;
    const facts = [
      [`Accuracy, ${window_}`, percent(last.last), gain === null ? "nothing scored yet" : `${gain >= 0 ? "+" : "−"}${Math.abs(gain)} points on the better baseline`],
      [`Log loss, ${window_}`, decimal(of["log loss"]?.last), known(of["log loss"]?.prior) ? `${decimal(of["log loss"].prior)} by the prior alone` : "nats a prediction"],
      ["Observations", number(shard.observations), known(rate) ? `${number(Math.round(rate))} a second` : "no rate yet"],
      ["Learned", number(shard.learned), [shard.imported ? `and ${number(shard.imported_labels)} before the import` : "", shard.mix ? `and ${number(shard.mix.labels)} by ${shard.mix.peers} other shards` : "", `${number(shard.pending)} wait for a label`].filter(Boolean).join(" · ")],
      ["Lag in records", number(shard.lag), "not consumed yet"],
      ["Dead letters", number(refused), shard.held_back ? "learning has stopped" : "could not be used", shard.held_back],
      ["Last commit", known(shard.commit_seconds) ? `${Math.max(1, Math.round(1000 * shard.commit_seconds))} ms` : "–", shard.committed_at == null ? "none since the start" : ago(shard.committed_at)],
      ["Snapshot", known(shard.snapshot_at) ? span((Date.now() + offset) / 1000 - shard.snapshot_at) : "–", snapshot(shard), known(shard.snapshot_error)],
    ];
    const list = $("tiles");
    document.querySelector(".tiles").hidden = false;
    facts.forEach(([title, value, note, bad], i) => {
      if (!list.children[i]) {
        list.append(make("div", {}, make("dt"), make("dd", { className: "value" }), make("dd", { className: "note" })));
      }
      const [dt, dd, small] = list.children[i].children;
      write(dt, title);
      write(dd, value);
      write(small, note);
      small.classList.toggle("bad", Boolean(bad));
    });
  }

  const lines = [
    { label: "model", color: "--model", width: 2.5, value: percent },
    { label: "majority", color: "--majority", dash: "dashed", value: percent },
    { label: "no-change", color: "--no-change", dash: "dotted", value: percent },
  ];
  function curve(element, { scored, model, majority, no_change }) {
    const place = element.querySelector(".chart");
    const end = scored.length - 1;
    write(element.querySelector(".quiet"), `Share of right predictions among the last ${number(newest.shard.window)}, each made before its label was known.`);
    place.setAttribute(
      "aria-label",
      `Accuracy over ${number(scored[end])} scored predictions: now model ${percent(model[end])}, majority ${percent(majority[end])}, no-change ${percent(no_change[end])}. The same as a table below.`,
    );
    draw(place, [scored, model, majority, no_change], {
      lines,
      height: 280,
      marks: (newest.shard.drift?.alarms ?? []).map((alarm) => alarm.scored),
      range: (low, high) => [Math.max(0, Math.floor((low ?? 0.5) * 10 - 0.001) / 10), Math.min(1, Math.ceil((high ?? 1) * 10) / 10)],
      xs: (ticks) => ticks.map((x) => (Number.isInteger(x) ? number(x) : "")),
      ys: (ticks) => ticks.map((y) => `${Math.round(100 * y)} %`),
    });
    const shown = 20;
    const at = [...new Set(Array.from({ length: shown }, (_, k) => Math.round((end * k) / (shown - 1))))].reverse();
    table(
      element,
      ["Scored", right("Model"), right("Majority"), right("No-change")],
      at.map((i) => [name(number(scored[i])), right(percent(model[i])), right(percent(majority[i])), right(percent(no_change[i]))]),
    );
  }

  const ratios = new Set($percent);
  function scores(element, list) {
    table(
      element,
      ["Score", right(`Last ${number(newest.shard.window)}`), right("Majority"), right("No-change"), right("Prior"), right("All time"), right("Fading")],
      list.map((s) => {
        const text = ratios.has(s.name) ? percent : decimal;
        return [
          name(s.name), { text: text(s.last), kind: "number strong" },
          ...[s.majority, s.no_change, s.prior].map((v) => right(known(v) ? text(v) : "")),
          right(text(s.all)), right(text(s.fading)),
        ];
      }),
    );
  }

  function calibration(element, bins) {
    const filled = bins.filter((b) => known(b.confidence));
    const place = element.querySelector(".chart");
    const at = [0, ...filled.map((b) => b.confidence), 1]; // the line is drawn from end to end
    draw(place, [at, [null, ...filled.map((b) => b.accuracy), null], at], {
      lines: [
        { label: "share of right ones", color: "--model", points: true, value: percent },
        { label: "as confident as right", color: "--no-change", dash: "dotted", value: percent },
      ],
      height: 220,
      still: true,
      x: { range: [0, 1] },
      range: [0, 1],
      xs: (ticks) => ticks.map((x) => `${Math.round(100 * x)} %`),
      ys: (ticks) => ticks.map((y) => `${Math.round(100 * y)} %`),
    });
    table(
      element,
      ["Confidence", right("Predictions"), right("Mean confidence"), right("Right")],
      filled.map((b) => [name(`${Math.round(100 * b.low)} to ${Math.round(100 * b.high)} %`), right(number(b.weight)), right(percent(b.confidence)), right(percent(b.accuracy))]),
    );
  }

  function confusion(element, { classes, counts, others = 0 }) {
    const names = others ? [...classes, `${number(others)} others`] : classes;
    table(
      element,
      ["true \\ predicted", ...names.map((text) => ({ text: text || "(empty)" }))],
      counts.map((row, i) => {
        const sum = row.reduce((a, b) => a + b, 0);
        return [
          name(names[i]),
          ...row.map((n, k) => ({ text: number(n), share: sum ? n / sum : 0, kind: k === i ? "right" : "" })),
        ];
      }),
    );
  }

  const bar = (value) => ({ text: percent(value), share: value ?? 0, kind: "number bar" });
  function classes(element, list) {
    table(
      element,
      ["Class", right("Precision"), right("Recall"), right("F1"), right("True"), right("Predicted")],
      list.map((c) => [name(c.name), bar(c.precision), bar(c.recall), bar(c.f1), right(number(c.support)), right(number(c.predicted))]),
    );
  }

  function throughput(element, { at, rate, lag }) {
    const [first, second] = element.querySelectorAll(".chart");
    const options = (line, whole) => ({
      lines: [{ fill: true, width: 1.5, ...line }],
      height: 120,
      time: true,
      range: (low, high) => [0, Math.max(whole, (high ?? 0) * 1.15)],
      xs: (ticks) => ticks.map((x) => new Date(1000 * x).toLocaleTimeString("en-GB").slice(0, 8)),
      ys: (ticks) => ticks.map((y) => (Number.isInteger(y) ? short(y) : "")),
    });
    draw(first, [at, rate], options({ label: "observations a second", color: "--model", value: number }, 5));
    second.hidden = !lag.some(known);
    if (!second.hidden) draw(second, [at, lag], options({ label: "lag in records", color: "--majority", value: number }, 5));
    const tens = at.map((_, i) => i).filter((i) => i % 10 === 0 || i === at.length - 1).reverse();
    table(
      element,
      ["Time", right("Observations a second"), right("Lag in records")],
      tens.map((i) => [name(clock(1000 * at[i])), right(number(rate[i])), right(number(lag[i]))]),
    );
  }
  function delay(element, facts) {
    const sentences = [];
    if (known(facts.coverage)) sentences.push(`${percent(facts.coverage)} of the predictions that wait no longer got their label, on average ${late(facts.mean ?? 0)} late in stream time.`);
    if (known(facts.waited)) sentences.push(`The oldest that waits has waited ${late(facts.waited)}.`);
    if (known(facts.estimate)) {
      const error = known(facts.error) ? `; of those labelled since, the estimate was ${(100 * Math.abs(facts.error)).toFixed(1)} points too ${facts.error < 0 ? "low" : "high"}` : "";
      sentences.push(`Estimated accuracy of the ${number(facts.waiting)} that wait: ${percent(facts.estimate)}${error}.`);
    }
    write(element.querySelector(".quiet"), sentences.join(" "));
    const last = facts.delays.findLastIndex((d) => d.labels > 0);
    const shown = facts.delays.slice(0, Math.max(last + 2, 4));
    const names = shown.map((d) => (known(d.upto) ? `≤ ${late(d.upto)}` : "later"));
    const place = element.querySelector(".chart");
    draw(place, [shown.map((_, i) => i), shown.map((d) => d.labels)], {
      lines: [{ label: "labels", color: "--model", bars: true, fill: true, width: 1, value: () => number(facts.delays.reduce((sum, d) => sum + d.labels, 0)) }],
      height: 150,
      x: { range: [-0.6, shown.length - 0.4] },
      range: (low, high) => [0, Math.max(5, (high ?? 0) * 1.15)],
      xs: (ticks) => ticks.map((x) => (Number.isInteger(x) ? names[x] ?? "" : "")),
      ys: (ticks) => ticks.map((y) => (Number.isInteger(y) ? short(y) : "")),
    });
    table(element, ["Delay", right("Labels")], shown.map((d, i) => [name(names[i]), right(number(d.labels))]));
  }

  const short = (y) => (y >= 1e6 ? `${y / 1e6} M` : y >= 1e4 ? `${y / 1e3} k` : number(y));

  function decisions(element, facts) {
    const always = known(facts.always_risk) ? `; always “${facts.always}” would have cost ${decimal(facts.always_risk)}` : "";
    write(element.querySelector(".quiet"), `Mean loss ${decimal(facts.risk)} over ${number(facts.scored)} scored decisions${always}.`);
    const made = facts.actions.reduce((sum, [, n]) => sum + n, facts.rejected);
    const rows = [...facts.actions, ["rejected", facts.rejected]];
    table(
      element,
      ["Action", right("Decided"), right("Share")],
      rows.map(([action, n]) => [name(action), right(number(n)), bar(made ? n / made : null)]),
    );
  }

  function budget(element, facts) {
    write(element.querySelector(".quiet"), `At most ${Number((100 * facts.rate).toPrecision(3))} % of the records of other labels: ${facts.text}.`);
    table(
      element,
      ["Budget", right("Records")],
      [[`flagged as ${facts.label}`, facts.flagged], ["unsure", facts.unsure], ["others", Math.max(0, newest.shard.predictions - facts.flagged - facts.unsure)], ["withheld", facts.withheld], ["false positives", facts.false_positives], ["labelled others", facts.others], ["labels missing", facts.missing]].map(([what, n]) => [name(what), right(number(n))]),
    );
  }

  function challengers(element, list) {
    const evidence = (e) => (!known(e) ? "" : e >= 1000 ? power(e) : decimal(e, e < 10 ? 2 : 0));
    table(
      element,
      ["Model", right("Accuracy"), right("Log loss"), right("Learned"), right("Only it was right"), right("Only the champion"), right("E-value"), right("Brier, better by (95 % at all times)")],
      list.map((c) => [
        name(`${c.name === c.type ? c.name : `${c.name}, ${c.type}`}${c.champion ? " (champion)" : ""}`),
        right(percent(c.accuracy)), right(decimal(c.log_loss)), right(number(c.learned)),
        right(c.champion ? "" : number(c.won)), right(c.champion ? "" : number(c.lost)),
        right(c.champion ? "" : c.undecided ? `undecided: ${c.undecided}` : evidence(c.e_value)),
        right(c.champion ? "" : c.undecided ? signed(c.difference, 4) : `${signed(c.difference, 4)} (${signed(c.lower, 4)} to ${signed(c.upper, 4)})`),
      ]),
    );
  }

  function reporters(element, { known, top }) {
    write(element.querySelector(".quiet"), `Who gave labels, and how much each is trusted, judged by later reporters of the same records.${top.length < known ? ` Those with the most labels, of ${number(known)}.` : ""}`);
    table(
      element,
      ["Reporter", right("Labels"), right("Confirmed"), right("Contradicted"), right("Trust"), "New labels"],
      top.map((r) => [
        name(r.name || "(anonymous)"), right(number(r.labels)), right(number(r.agreed)), right(number(r.disagreed)),
        right(percent(r.trust)), r.quarantined ? "quarantined" : "learned",
      ]),
    );
  }

  function keys(element, found) {
    const { per, compared, fewest, worst } = found;
    const beside = known(found.accuracy) ? ` All records: ${percent(found.accuracy)} right, log loss ${decimal(found.log_loss)}.` : "";
    write(
      element.querySelector(".quiet"),
      `${number(compared)} of ${number(found.keys)} values of ${per} have at least ${fewest} scored records; ${number(found.worse_than_guessing)} of them ${found.worse_than_guessing === 1 ? "is" : "are"} worse than guessing their usual label.${beside}` +
        (worst.length ? " Each row is over about the last 500 records of its key; the highest certain error rate comes first." : ""),
    );
    table(
      element,
      worst.length ? ["Key", right("Scored"), right("Accuracy"), right("Usual label"), right("Log loss"), right("Errors at least"), "Worse than"] : [],
      worst.map((k) => [
        name(k.key), right(number(k.scored)), right(percent(k.accuracy)), right(percent(k.guess)), right(decimal(k.log_loss)), right(percent(k.least)),
        k.worse_than_guessing ? "guessing" : k.above_service ? "the service" : "",
      ]),
    );
  }

  const experts = (element, list) => table(element, ["Learner", right("Weight")], list.map(([learner, weight]) => [name(learner), bar(weight)]));

  // Strongest features: asked for once a minute, while the page is visible.
  let asked = { shard: null, at: -Infinity };
  async function strongest(shard) {
    const element = $("features");
    if (!shard.names_features) element.hidden = true;
    if (!shard.names_features || (asked.shard === shard.number && performance.now() - asked.at < 60000)) return;
    asked = { shard: shard.number, at: performance.now() };
    let found = { error: true };
    try {
      found = await (await fetch(`features?shard=${shard.number}`)).json();
    } catch {
      // asked again below
    }
    if (newest?.shard?.number !== shard.number) return;
    if (found.error) {
      asked.at -= 55000; // again in five seconds
      return;
    }
    element.hidden = found.towards.length + found.opposed.length === 0;
    if (element.hidden) {
      asked.at -= 55000;
      return;
    }
    write(element.querySelector(".quiet"), `Words and fields of the last ${number(found.messages)} messages shown here, after ${number(found.learned)} labels. Log-odds in nats, of “${found.label}” against “${found.against}”.`);
    const rows = Math.max(found.towards.length, found.opposed.length);
    const side = (list, i) => (list[i] ? [name(list[i][0]), right(signed(list[i][1], 2))] : ["", ""]);
    table(
      element,
      [`For ${found.label}`, right("Log-odds"), `For ${found.against}`, right("Log-odds")],
      Array.from({ length: rows }, (_, i) => [...side(found.towards, i), ...side(found.opposed, i)]),
    );
  }

  function drift(element, { monitors, alarms }) {
    const texts = monitors.map((m) => `${m.detector} on ${words(m.on)}: ${number(m.alarms)} ${m.alarms === 1 ? "alarm" : "alarms"}${m.detected ? ", just now" : ""}`);
    write(element.querySelector(".quiet"), `${texts.join("; ")}.${alarms.length ? " The newest first; each is a dashed line on the curve." : ""}`);
    element.querySelector(".scroll").hidden = alarms.length === 0;
    table(
      element,
      ["Stream time", "Watched", "Detector", right("Before"), right("After"), "Action", minor(right("Scored by then")), minor("Record")],
      alarms.map((a) => [
        { text: moment(a.at), kind: "still", head: "row" }, { text: words(a.on), kind: "name" }, a.detector,
        right(decimal(a.before, 4)), right(decimal(a.after, 4)), a.action,
        minor(right(number(a.scored))), minor({ text: a.place, kind: "name" }),
      ]),
    );
  }

  function latest(element, list) {
    if (held(element)) return;
    table(
      element,
      ["Id", "Predicted", right("Probability"), minor("Runners-up"), minor("Time of the record"), minor(right("Labels learned")), "Explanation"],
      list.map((p) => [
        name(p.id), { text: p.predicted || "nothing yet", kind: "name" }, right(percent(p.probabilities[0]?.[1])),
        minor({ text: p.probabilities.slice(1, 3).map(([label, q]) => `${label} ${percent(q)}`).join(", "), kind: "long" }),
        minor({ text: moment(p.at), kind: "still" }), minor(right(number(p.learned))),
        { text: "Why?", label: `Why ${p.predicted} for ${p.id}?`, button: () => why(p) },
      ]),
    );
  }

  async function why(prediction) {
    const panel = $("why");
    const [title, note] = [panel.querySelector("h3"), panel.querySelector(".quiet")];
    panel.hidden = false;
    panel.querySelector(".scroll").hidden = true;
    write(title, prediction.id);
    write(note, "Asking the model …");
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest" });
    const asked = new URLSearchParams({ shard: newest.shard.number, place: prediction.place });
    let found;
    try {
      const answer = await fetch(`explain?${asked}`);
      const json = answer.headers.get("content-type")?.startsWith("application/json");
      found = json ? await answer.json() : { error: (await answer.text()).trim() };
    } catch {
      found = { error: "the service did not answer; check that it runs" };
    }
    if (found.error) {
      write(note, `No explanation: ${found.error}.`);
      return;
    }
    write(title, `${prediction.id}: why “${found.label}” rather than “${found.against}”`);
    const when = found.as_made
      ? "As it was published with the prediction"
      : `By the model of now, ${number(found.learned - found.then)} labels after the prediction (headwater audit ${prediction.place} has the explanation of that time)`;
    write(note, `${when}. Log-odds ${decimal(found.log_odds, 2)}: the sum of all contributions, in nats.`);
    const most = Math.max(...found.shares.map(([, share]) => Math.abs(share)), 1e-9);
    panel.querySelector(".scroll").hidden = false;
    table(
      panel,
      ["Feature", right("Share"), "Against, for"],
      found.shares.map(([feature, share]) => [
        name(feature), right(signed(share, 2)),
        { text: "", share: share / most, kind: share < 0 ? "sway against" : "sway" },
      ]),
    );
  }
  $("why").querySelector("button").onclick = () => {
    $("why").hidden = true;
    $("latest").querySelector(".scroll").focus();
  };

  function dead(element, list) {
    if (held(element)) return;
    table(
      element,
      ["Record", "Reason", "Detail", "First bytes", "Time"],
      list.map((d) => [
        name(d.place), { text: words(d.reason), kind: "still" }, { text: d.detail, kind: "long" },
        { text: d.value, kind: "long" }, { text: moment(d.at), kind: "still" },
      ]),
    );
  }

  function fields(element, { observations, fields: list, others, looked, unknown, labels_looked, unknown_of_labels }) {
    const share = (n, of) => right(of ? percent(n / of) : "–");
    const undeclared = (prefix, of) => (f) => [
      name(prefix + f.name), right(""), right(""), right(""), share(f.found, of), { text: f.example, kind: "long" },
    ];
    const more = others ? ` ${number(others)} more fields are used in more of them.` : "";
    write(
      element.querySelector(".quiet"),
      `Of ${number(observations)} observations since the start, those that are used least first.${more} Undeclared fields are looked for in some of them (${number(looked)}).`,
    );
    table(
      element,
      ["Field", right("Used"), right("No value"), right("Does not fit"), right("Not declared"), "Last value that was not used"],
      [
        ...list.map((f) => [
          name(f.name), share(f.used, observations), share(f.missing, observations), share(f.bad, observations), right(""),
          { text: [f.example, words(f.reason)].filter(Boolean).join(" · "), kind: "long" },
        ]),
        ...unknown.map(undeclared("", looked)),
        ...unknown_of_labels.map(undeclared("label record: ", labels_looked)),
      ],
    );
  }

  function inputs(element, list) {
    table(
      element,
      ["Topic", right("Partition"), right("Next offset"), right("Lag")],
      list.map((i) => [name(i.topic), right(number(i.partition)), right(number(i.offset)), right(number(i.lag))]),
    );
  }

  // The stream: none while the page is hidden or paused.
  let source = null;
  let paused = false;
  function connect() {
    source?.close();
    source = null;
    if (paused || document.hidden) return;
    source = new EventSource(`events${location.search}`);
    source.onmessage = (event) => {
      const document_ = JSON.parse(event.data);
      offset = 1000 * document_.now - Date.now();
      show(document_);
    };
    source.onerror = () => {
      state("lost", "", "connection lost; trying again");
      if (source?.readyState === EventSource.CLOSED) setTimeout(connect, 5000); // rejected: try again later
    };
  }
  $("pause").onclick = () => {
    paused = !paused;
    write($("pause"), paused ? "Go on" : "Pause");
    if (paused) state("paused");
    connect();
  };
  document.addEventListener("visibilitychange", connect);
  setInterval(() => newest?.shard && !paused && tiles(newest.shard), 1000);
  connect();
})();
