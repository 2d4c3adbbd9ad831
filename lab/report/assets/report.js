/* report.js: the page of training runs: curves with shared axes, a table of how they ended, and what each was: samples, options,
 * spec, machine. */
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
        step: { name: "step", format: (v, full) => full ? page.number(Math.round(v)) : page.short(v) },
        seconds: { name: "time", format: (v) => page.duration(Math.round(v)) },
        tokens: { name: "tokens", format: (v) => page.short(v) },
    };
    const shown = () => runs.filter((run) => !run.hidden);
    const column = (name) => ["step", "seconds", "tokens"].indexOf(name);

    /* ---- curves ---- */

    /* Where an evaluation lies on the axis that is chosen. */
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
            list.push({ name: "raw", faint: true, ...training, x, y: run.curves.loss, low: run.curves.low, high: run.curves.high });
            list.push({ name: named(run, "training"), ...training, x, y: run.curves.smooth });
            if (run.evaluations.length) list.push({ ...evaluations(run, 2, "validation"), ...(many ? {} : { colour: "--c1" }) });
        }
        return list;
    }
    const simple = (field) => () => shown().map((run) => ({ name: named(run, ""), thin: field !== "rate", ...run.style, x: run.curves[state.axis], y: run.curves[field] }));
    const x = () => axes[state.axis];
    const plain = { format: (v, full) => page.number(v, full ? 5 : 3) };
    const lossAxis = { format: plain.format, get log() { return state.log === "log"; } };
    const charts = [chart.make({ title: "Loss, nats a token", wide: true, clip: true, x, y: lossAxis, series: losses })];
    const metric = runs.find((run) => run.metric);
    if (metric)
        charts.push(chart.make({ title: `Validation ${metric.metric.replace(/_/g, " ")}`, x, y: plain, series: () => shown().filter((r) => r.metric === metric.metric).map((r) => evaluations(r, 3, "")) }));
    charts.push(chart.make({ title: "Learning rate", zero: true, x, y: plain, series: simple("rate") }));
    charts.push(chart.make({ title: "Gradient norm before clipping", zero: true, clip: true, x, y: plain, series: simple("norm") }));
    charts.push(chart.make({ title: "Tokens a second", zero: true, clip: true, x, y: { format: (v) => page.short(v) }, series: simple("tokens_per_second") }));
    const draw = () => { for (const c of charts) c.redraw(); };

    /* ---- the table ---- */

    const finite = (list) => list.filter((v) => v !== null);
    const last = (list) => list.length ? list[list.length - 1] : null;
    function figures(run) {
        const curves = run.curves, valid = run.evaluations.filter((e) => e[2] !== null);
        const best = valid.reduce((a, e) => a === null || e[2] < a[2] ? e : a, null);
        const speeds = finite(curves.tokens_per_second);
        return {
            "steps": `${page.number(last(curves.step) || 0)}${run.planned ? ` of ${page.number(run.planned)}` : ""}`,
            "parameters": run.parameters ? page.short(run.parameters) : "–",
            "training loss": page.number(last(finite(curves.smooth)), 4),
            "validation loss": page.number(valid.length ? last(valid)[2] : null, 4),
            "best": best ? `${page.number(best[2], 4)} at ${page.number(best[0])}` : "–",
            ...(metric ? { [metric.metric.replace(/_/g, " ")]: run.metric === metric.metric && run.evaluations.length ? page.number(last(run.evaluations)[3], 4) : "–" } : {}),
            "tokens/s": page.short(speeds.length ? speeds.reduce((a, b) => a + b, 0) / speeds.length : null),
            "time": page.duration(last(finite(curves.seconds))),
            "state": run.ended ? "done" : "under way",
        };
    }
    function table() {
        const all = runs.map(figures), names = Object.keys(all[0]);
        return page.el("div", { class: "scroll" }, page.el("table", null,
            page.el("thead", null, page.el("tr", null, page.el("th", { scope: "col" }, "run"), ...names.map((n) => page.el("th", { scope: "col" }, n)))),
            page.el("tbody", null, ...runs.map((run, i) => page.el("tr", null, page.el("th", { scope: "row" }, run.name), ...names.map((n) => page.el("td", null, all[i][n])))))));
    }

    /* ---- what each was ---- */

    const differs = (key) => new Set(runs.map((run) => JSON.stringify((run.options || {})[key]))).size > 1;
    function options() {
        const keys = [];
        for (const run of runs) for (const key of Object.keys(run.options || {})) if (!keys.includes(key)) keys.push(key);
        const text = (v) => v === undefined ? "–" : v === null ? "none" : typeof v === "number" ? page.number(v, 6) : String(v);
        const rows = keys.map((key) => page.el("tr", { class: many && differs(key) ? "best" : null }, page.el("th", { scope: "row" }, key.replace(/_/g, " ")),
            ...runs.map((run) => page.el("td", { class: "text number" }, text((run.options || {})[key])))));
        return page.el("details", null, page.el("summary", null, "Options of training"), many ? page.el("p", { class: "note" }, "In bold: where the runs differ.") : null,
            page.el("div", { class: "scroll" }, page.el("table", null,
                many ? page.el("thead", null, page.el("tr", null, page.el("th", { scope: "col" }, "option"), ...runs.map((run) => page.el("th", { scope: "col", class: "text" }, run.name)))) : null,
                page.el("tbody", null, ...rows))));
    }
    function machines(run) {
        const rows = run.machines.map((m) => page.el("li", null, `from step ${page.number(m.step)}, ${String(m.time).replace("T", " ").replace("Z", " UTC")}: ` +
            `${m.cpu}, ${m.threads} of ${m.cpus} CPUs, ${m.isa}, ${m.precision || "fp32"}, ${page.short(m.memory)}B of memory, ${m.system}, qkv ${m.qkv}`));
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
        return page.el("section", null, many ? page.el("h2", null, run.name) : page.el("h2", null, "Samples"), many ? page.el("h3", null, "Samples") : null, samples(run),
            page.el("h3", null, "Machine"), machines(run),
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
        page.el("div", { class: "charts" }, ...charts.map((c) => c.element)),
        page.el("p", { class: "note" }, many ? "Dotted: the training loss, smoothed; with points: the validation loss; faint: the training loss of each step."
            : "Blue: the training loss, smoothed, and faint that of each step; with points: the validation loss."),
        ...runs.map(about),
        options(),
    ].filter((element) => element));
    draw();
})();
