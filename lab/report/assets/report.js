/* report.js: the page of training runs: curves with shared axes, a table of the results, and each run's samples,
 * options, spec and machine. */
"use strict";
(function () {
    const runs = page.data.runs, many = runs.length > 1;
    runs.forEach((run, i) => {
        run.style = chart.style(i);
        run.hidden = page.recall(`hidden ${i}`, false);
    });
    const named = (run, what) => many ? (what ? `${run.name}, ${what}` : run.name) : what || run.name;
    const state = { axis: page.recall("axis", "step"), log: page.recall("log", "linear") };
    const axes = {
        step: { name: "step", whole: true, format: (v) => page.number(Math.round(v)), marks: page.marks.number },
        seconds: { name: "time", format: (v) => page.duration(Math.round(v * 10) / 10), marks: page.marks.duration },
        tokens: { name: "tokens", format: (v) => page.short(v), marks: page.marks.short },
    };
    const words = (name) => name.replace(/_/g, " ");
    const shown = () => runs.filter((run) => !run.hidden);
    const column = (name) => ["step", "seconds", "tokens"].indexOf(name);

    /* ---- curves ---- */

    /* The place of an evaluation on the chosen axis. */
    function evaluationX(run, e) {
        if (state.axis !== "tokens") return e[column(state.axis)];
        const at = run.curves.step.findIndex((s) => s >= e[0]);
        return at < 0 ? null : run.curves.tokens[at];
    }
    function evaluations(run, field, what) {
        return { name: named(run, what), ...run.style, x: run.evaluations.map((e) => evaluationX(run, e)), y: run.evaluations.map((e) => e[field]), dots: true };
    }
    function losses() {
        const list = [];
        for (const run of shown()) {
            const x = run.curves[state.axis];
            const training = many ? { ...run.style, thin: true } : { colour: "--c0", dash: [] };
            if (runs.length <= 4) list.push({ name: "raw", faint: true, ...training, x, y: run.curves.loss, low: run.curves.low, high: run.curves.high });
            list.push({ name: named(run, "training"), ...training, x, y: run.curves.smooth });
            if (run.evaluations.length) list.push({ ...evaluations(run, 2, "validation"), ...(many ? {} : { colour: "--c1" }) });
        }
        return list;
    }
    const simple = (field) => () => shown().map((run) => ({ name: named(run, ""), thin: field !== "rate", ...run.style, x: run.curves[state.axis], y: run.curves[field] }));
    const x = () => axes[state.axis];
    const plain = { format: (v) => page.number(v, 5) };
    const lossAxis = { format: plain.format, get log() { return state.log === "log"; } };
    const units = [...new Set(runs.map((run) => run.unit))];
    const charts = [chart.make({ title: units.length > 1 ? "Loss, nats" : `Loss, nats a ${units[0]}`, wide: true, clip: true, x, y: lossAxis, series: losses })];
    const metrics = [...new Set(runs.map((run) => run.metric).filter((m) => m))];
    for (const metric of metrics)
        charts.push(chart.make({ title: `Validation ${words(metric)}`, x, y: plain, series: () => shown().filter((r) => r.metric === metric).map((r) => evaluations(r, 3, many ? "" : words(metric))) }));
    charts.push(chart.make({ title: "Learning rate", zero: true, x, y: plain, series: simple("rate") }));
    charts.push(chart.make({ title: "Gradient norm before clipping", zero: true, clip: true, x, y: plain, series: simple("norm") }));
    charts.push(chart.make({ title: "Tokens a second", zero: true, clip: true, x, y: { format: (v) => page.short(v), marks: page.marks.short }, series: simple("tokens_per_second") }));
    /* One run has a line for each layer, or for very many layers their mean between the lowest and the highest;
     * several runs have the highest of each. */
    const LAYERS = 12;
    function loads() {
        const run = runs[0], layers = run.curves.layers || [];
        const most = simple("expert_load")().filter((s) => s.y).map((s) => ({ ...s, name: s.name || "the highest of all layers" }));
        if (many || !layers.length) return most;
        if (layers.length <= LAYERS) return layers.map((layer, i) => ({ name: layer.name, thin: true, ...chart.style(i), x: run.curves[state.axis], y: layer.load }));
        const at = (p) => layers.map((layer) => layer.load[p]).filter((v) => v !== null), of = (f) => run.curves.step.map((_, p) => (at(p).length ? f(at(p)) : null));
        return [{ name: `the mean of ${layers.length} layers`, ...run.style, x: run.curves[state.axis], y: of((list) => list.reduce((a, b) => a + b, 0) / list.length),
            low: of((list) => Math.min(...list)), high: of((list) => Math.max(...list)) }];
    }
    if (runs.some((run) => run.curves.expert_load)) {
        const view = chart.make({ title: "Rows of the busiest expert, over the mean of its layer", clip: true, x, y: plain, series: loads });
        if (!many) view.element.append(chart.meaning(loads()));
        charts.push(view);
        charts.push(chart.make({ title: "Experts without a row, of all layers", zero: true, x, y: plain, series: () => simple("experts_unused")().filter((s) => s.y) }));
    }
    const draw = () => { for (const c of charts) c.redraw(); };

    /* The key of the first chart. */
    function key() {
        const evaluated = runs.some((run) => run.evaluations.length), line = many ? { colour: "--soft" } : { colour: "--c0" };
        return chart.meaning([{ name: "training loss, smoothed", ...line, thin: many }, ...(runs.length <= 4 ? [{ name: "of each step", ...line, faint: true }] : []),
            ...(evaluated ? [{ name: "validation loss", colour: many ? "--soft" : "--c1", dots: true }] : [])]);
    }
    const smoothed = () => `Smoothed: the mean of the last ${page.number(page.data.smooth_tokens)} tokens or so, exponentially weighted and debiased; ` +
        `of the last ${page.number(100 / page.data.smooth_share)} % of what was read while that is less. The same for all runs, whatever their lengths and batches.`;

    /* ---- the table: the numbers of the terminal ---- */

    function figures(run) {
        const s = run.summary, judged = run.metric ? `${words(run.metric)} ` : "";
        return {
            "steps": `${page.number(s.step)}${run.planned ? ` of ${page.number(run.planned)}` : ""}`,
            "parameters": run.parameters ? page.short(run.parameters) : "–",
            [units.length > 1 ? "latest loss" : `loss, nats a ${units[0]}`]: page.loss(s.loss),
            "validation loss": page.loss(s.valid_loss),
            ...Object.fromEntries(metrics.map((m) => [words(m), run.metric === m ? page.loss(s.metric) : "–"])),
            "best": s.best === null ? "–" : `${metrics.length ? judged || "loss " : ""}${page.loss(s.best)} at ${page.number(s.best_step)}`,
            "tokens/s": page.short(s.tokens_per_second),
            "time": page.clock(s.seconds),
            "state": run.killed ? "killed" : run.state,
        };
    }
    function table() {
        const all = runs.map(figures), names = Object.keys(all[0]);
        return page.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the runs and their numbers" }, page.el("table", { class: many ? null : "facts" },
            page.el("thead", null, page.el("tr", null, page.el("th", { scope: "col" }, "run"), ...names.map((n) => page.el("th", { scope: "col" }, n)))),
            page.el("tbody", null, ...runs.map((run, i) => page.el("tr", null, page.el("th", { scope: "row", title: run.folder }, run.name), ...names.map((n) => page.el("td", { "data-name": n }, all[i][n])))))));
    }

    /* ---- what each was ---- */

    const option = (run, key) => {
        const v = (run.options || {})[key];
        return v === undefined ? "–" : v === null ? "none" : typeof v === "number" ? page.number(v, 6) : Array.isArray(v) ? v.join(", ") : String(v);
    };
    const keysOf = (list) => [...new Set(list.flatMap((run) => Object.keys(run.options || {})))];
    /* The options in which several runs differ, a row for each run. */
    function differences() {
        const keys = keysOf(runs).filter((key) => new Set(runs.map((run) => option(run, key))).size > 1);
        if (!many) return null;
        if (!keys.length) return page.el("p", { class: "note" }, "The runs have the same options of training.");
        return page.el("section", null, page.el("h2", null, "Where the options differ"),
            page.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "options in which the runs differ" }, page.el("table", null,
                page.el("thead", null, page.el("tr", null, page.el("th", { scope: "col" }, "run"), ...keys.map((key) => page.el("th", { scope: "col", class: "text" }, words(key))))),
                page.el("tbody", null, ...runs.map((run) => page.el("tr", null, page.el("th", { scope: "row" }, run.name), ...keys.map((key) => page.el("td", { class: option(run, key).length > 14 ? "text" : "word" }, option(run, key)))))))));
    }
    function options(run) {
        const keys = keysOf([run]);
        if (!keys.length) return page.el("p", { class: "note" }, "There is no train.json, and so no options.");
        return page.el("details", { class: "options" }, page.el("summary", null, many ? `Options of ${run.name}` : "Options of training"),
            page.el("table", null, page.el("tbody", null, ...keys.map((key) => page.el("tr", null, page.el("th", { scope: "row" }, words(key)), page.el("td", { class: "text" }, option(run, key)))))));
    }
    function machines(run) {
        const rows = run.machines.map((m) => page.el("li", null, `from step ${page.number(m.step)}, ${String(m.time).replace("T", " ").replace("Z", " UTC")}: ` +
            `${m.cpu}, ${m.threads} of ${m.cpus} CPUs, ${m.isa}, ${m.precision || "fp32"}, ${page.bytes(m.memory)} of memory, ${m.system}, qkv ${m.qkv}`));
        return rows.length > 0 ? page.el("ul", null, ...rows) : page.el("p", { class: "note" }, "The machine was not logged.");
    }
    function samples(run) {
        if (!run.samples.length) return page.el("p", { class: "note" }, "No samples were written; train with --sample N to have some at every evaluation.");
        const place = page.el("pre"), label = page.el("output"), count = run.samples.length;
        const slider = page.el("input", { type: "range", min: "0", max: String(count - 1), value: String(count - 1), "aria-label": `samples of ${run.name}` });
        const show = () => {
            const sample = run.samples[slider.value];
            label.textContent = `step ${page.number(sample.step)}`;
            slider.setAttribute("aria-valuetext", label.textContent);
            place.textContent = sample.text;
        };
        slider.addEventListener("input", show);
        show();
        return page.el("div", null, page.el("div", { class: "controls" }, page.el("label", null, page.el("span", null, "written at ", label), count > 1 ? slider : null)), place);
    }
    function about(run) {
        return page.el("section", null, many ? page.el("h2", { title: run.folder }, run.name) : page.el("h2", null, "Samples"), many ? page.el("h3", null, "Samples") : null, samples(run),
            page.el("h3", null, "Machine"), machines(run),
            options(run),
            run.message ? page.el("p", null, `It failed: ${run.message}`) : null,
            run.state === "interrupted" || run.state === "failed" ? page.el("p", { class: "note" }, run.saved ? `It goes on from step ${page.number(run.saved)} with train --resume.` : "It has no checkpoint to resume from.") : null,
            run.damaged ? page.el("p", { class: "note" }, `${page.number(run.damaged)} lines of the log are damaged and were passed over.`) : null,
            run.spec ? page.el("details", null, page.el("summary", null, many ? `Spec of ${run.name}` : "Spec"), page.el("pre", null, JSON.stringify(run.spec, null, 2))) : null);
    }

    /* ---- all of it ---- */

    const set = (key) => (value) => {
        state[key] = value;
        page.remember(key, value);
        draw();
    };
    page.main.append(...[
        table(),
        page.el("div", { class: "controls" },
            page.choice("Over", [["step", "steps"], ["seconds", "time"], ["tokens", "tokens"]], state.axis, set("axis")),
            page.choice("Loss axis", [["linear", "linear"], ["log", "logarithmic"]], state.log, set("log"))),
        many ? chart.legend(runs, () => {
            runs.forEach((run, i) => page.remember(`hidden ${i}`, run.hidden));
            draw();
        }) : null,
        key(),
        page.el("div", { class: "charts" }, ...charts.map((c) => c.element)),
        page.el("p", { class: "note" }, smoothed()),
        differences(),
        ...runs.map(about),
    ].filter((element) => element));
    draw();
})();
