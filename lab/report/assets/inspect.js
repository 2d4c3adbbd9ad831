/* inspect.js: the page of inspections: the size of activations and gradients from block to block, for several models
 * side by side, and all of them in a table. */
"use strict";
(function () {
    const models = page.data.models, many = models.length > 1;
    const stacks = [...new Set(models.flatMap((m) => m.rows.map((r) => r.stack)))];
    const state = { stack: stacks.includes("decoder") ? "decoder" : stacks[0], scale: "log" };
    models.forEach((model, i) => {
        model.style = chart.style(i);
        model.hidden = false;
    });
    const shown = () => models.filter((m) => !m.hidden);
    const rows = (model) => model.rows.filter((r) => r.stack === state.stack);
    /* The embedding comes before block 0, so it is at −1; blocks are at their numbers. */
    const place = (row) => row.what === "embedding" ? -1 : row.layer;
    const block = (v) => v < -.5 ? "embedding" : page.number(Math.abs(Math.round(v)));
    const axis = { name: "block", whole: true, format: block, marks: (list) => list.map(block) };

    function series(what, value) {
        return () => shown().map((model) => {
            const list = rows(model).filter((r) => what.includes(r.what));
            return { name: model.name, ...model.style, dots: true, x: list.map(place), y: list.map(value) };
        }).filter((s) => s.x.length);
    }
    const y = { format: (v) => page.number(v, 5), get log() { return state.scale === "log"; } };
    const size = (r) => r.min === null ? null : Math.max(Math.abs(r.min), Math.abs(r.max));
    const make = (title, what, value, wide) => chart.make({ title, wide, x: () => axis, y, series: series(what, value) });
    const has = (what) => models.some((m) => m.rows.some((r) => r.what === what));
    const trained = models.some((m) => m.targets > 0);
    const charts = [
        make("Deviation of the residual stream", ["embedding", "stream"], (r) => r.deviation, !trained),
        trained ? make("Norm of the gradients of a block", ["stream"], (r) => r.gradient_norm) : null,
        make("Largest size of a number in the residual stream", ["embedding", "stream"], size),
        make("Deviation of what attention adds", ["attention"], (r) => r.deviation),
        has("cross") ? make("Deviation of what cross attention adds", ["cross"], (r) => r.deviation) : null,
        make("Deviation of what the feed-forward sublayer adds", ["ffn"], (r) => r.deviation),
    ].filter((c) => c);
    const experts = (model) => model.experts || [];
    if (models.some((m) => experts(m).length))
        charts.push(chart.make({
            title: "Rows of the busiest expert, over the mean of its block", x: () => axis, y, series: () => shown().map((model) => {
                const list = experts(model).filter((e) => e.stack === state.stack);
                return { name: model.name, ...model.style, dots: true, x: list.map((e) => e.layer), y: list.map((e) => e.load) };
            }).filter((s) => s.x.length),
        }));
    const draw = () => { for (const c of charts) c.redraw(); };

    /* ---- the table ---- */

    const columns = [["mean", "mean"], ["deviation", "deviation"], ["min", "min"], ["max", "max"], ["not finite", "not_finite"], ["gradient", "gradient_norm"]];
    const named = (row) => row.what === "embedding" || row.what === "final" ? `${row.stack}, ${row.what}` : `${row.stack} ${row.layer}, ${row.what}`;
    function table(model) {
        const cell = (row, key) => page.el("td", null, key === "not_finite" ? (row[key] ? `${page.number(100 * row[key], 3)} %` : "none") : page.number(row[key], 4));
        return page.el("div", { class: "scroll" }, page.el("table", null,
            page.el("caption", { class: "hidden" }, `the numbers of ${model.name}`),
            page.el("thead", null, page.el("tr", null, page.el("th", { scope: "col" }, "where"), ...columns.map(([n]) => page.el("th", { scope: "col" }, n)))),
            page.el("tbody", null, ...model.rows.map((row) => page.el("tr", { class: row.what === "stream" ? "best" : null },
                page.el("th", { scope: "row" }, named(row)), ...columns.map(([, key]) => cell(row, key)))))));
    }
    /* The rows of a block's experts as bars, and their mean as a line. */
    function bars(of) {
        const each = Math.max(2, Math.min(14, Math.floor(560 / of.rows.length))), width = each * of.rows.length, height = 34;
        const most = Math.max(...of.rows, 1), mean = of.rows.reduce((a, b) => a + b, 0) / of.rows.length, y = (n) => Math.round((1 - n / most) * (height - 4)) + 2;
        const canvas = page.el("canvas", { class: "bars", role: "img", "aria-label": `Rows of each expert: ${of.rows.join(", ")}` });
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
        const draw = () => {
            const context = page.context(canvas, width, height);
            context.fillStyle = page.colour("--c0");
            of.rows.forEach((n, e) => context.fillRect(e * each, y(n), Math.max(1, each - (each > 3 ? 2 : each > 2 ? 1 : 0)), height - y(n)));
            context.fillStyle = page.colour("--ink");
            context.fillRect(0, y(mean), width, 1);
        };
        page.redraws.push(draw);
        draw();
        return canvas;
    }
    function loads(model) {
        if (!experts(model).length) return null;
        const columns = ["block", "of each row", "load", "unused", "rows of each expert"];
        return page.el("div", null, page.el("h3", null, "Rows of experts"), page.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `the experts of ${model.name}` }, page.el("table", { class: "experts" },
            page.el("thead", null, page.el("tr", null, ...columns.map((n, i) => page.el("th", { scope: "col", class: i === 4 ? "text" : null }, n)))),
            page.el("tbody", null, ...experts(model).map((of) => page.el("tr", null, page.el("th", { scope: "row" }, `${of.stack} ${of.layer}`),
                page.el("td", null, `${of.top_k} of ${of.rows.length}`), page.el("td", null, page.number(of.load, 3)), page.el("td", null, String(of.unused)),
                page.el("td", { class: "text" }, bars(of))))))));
    }
    function about(model) {
        const broken = model.rows.filter((r) => r.not_finite > 0);
        const loss = model.targets ? `Loss ${page.number(model.loss, 5)} nats, of ${model.about}; norm of all gradients ${page.number(model.gradient_norm, 4)}.`
            : "There is nothing to predict, so no loss and no gradients.";
        return page.el("section", null, page.el("h2", { title: model.folder }, model.name), many ? page.el("p", { class: "note" }, model.folder) : null, page.el("p", null, loss),
            broken.length ? page.el("p", null, `Numbers that are not finite begin at ${named(broken[0])}.`) : null, table(model), loads(model));
    }

    const set = (key) => (value) => {
        state[key] = value;
        draw();
    };
    page.main.append(...[
        page.el("div", { class: "controls" },
            stacks.length > 1 ? page.choice("Stack", stacks.map((s) => [s, s]), state.stack, set("stack")) : null,
            page.choice("Axis", [["linear", "linear"], ["log", "logarithmic"]], state.scale, set("scale"))),
        many ? chart.legend(models, draw) : null,
        page.el("div", { class: "charts" }, ...charts.map((c) => c.element)),
        page.el("p", { class: "note" }, "Blocks are counted from 0; the output of a sublayer is measured before it is added to the stream. A gradient is that of the weights of a sublayer and its norm, or of a whole block (stream)." +
            (models.some((m) => experts(m).length) ? " The load of experts is the number of rows of the busiest expert over the mean, which is a line in the pictures; it is 1 if all have equally many." : "")),
        ...models.map(about),
    ].filter((element) => element));
    draw();
})();
