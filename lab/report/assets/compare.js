/* compare.js: the page of a comparison: a table that any column can sort, quality against speed with memory as the
 * size of a bubble, and the loss curves of all variants. */
"use strict";
(function () {
    const data = page.data, all = data.variants;
    for (const v of all) {
        v.hidden = false;
        v.measured = v.parameters !== undefined;
    }
    const measured = all.filter((v) => v.measured);
    /* a variant that failed may have curves */
    const drawn = all.filter((v) => v.measured || v.curves.some((c) => c.step.length));
    all.forEach((v) => { v.style = chart.style(Math.max(0, drawn.indexOf(v))); });
    const shown = () => all.filter((v) => !v.hidden);

    /* ---- what there is to measure: name, value, better (−1 less, 1 more, 0 neither), text ---- */

    const columns = [
        { key: "parameters", name: "parameters", value: (v) => v.parameters, better: 0, text: page.short },
        { key: "loss", name: "validation loss", value: (v) => v.valid_loss, better: -1, text: (x, v) => v && v.deviation !== null ? `${page.loss(x)} ± ${page.loss(v.deviation)}` : page.loss(x) },
        /* not ranked: trainings do not alternate */
        { key: "train", name: "training, tokens/s", value: (v) => v.train_tokens_per_second, better: 1, fastest: null, text: page.short },
        { key: "prompt", name: `prompt of ${page.number(data.prompt_tokens)}, tokens/s`, value: (v) => v.prompt_tokens_per_second, better: 1, fastest: data.fastest_prompt, text: page.short },
        ...data.cache_lengths.map((n, i) => ({ key: `decode${n}`, name: `decoding at ${page.number(n)}, tokens/s`, value: (v) => v.decode_tokens_per_second[i], better: 1, fastest: data.fastest_decode[i], text: page.short })),
        { key: "cache", name: "cache a token", value: (v) => v.cache_bytes_per_token, better: -1, text: page.bytes },
        { key: "memory", name: "memory to train", value: (v) => v.train_bytes, better: -1, text: page.bytes },
        { key: "run", name: "memory to run", value: (v) => v.run_bytes, better: -1, text: page.bytes },
    ];
    const column = (key) => columns.find((c) => c.key === key);
    const value = (c, v) => {
        const x = v.measured ? c.value(v) : null;
        return x === undefined || x === null || !Number.isFinite(x) ? null : x;
    };
    function best(c) {
        /* null if the seeds differ by more */
        if (c.key === "loss") return data.best === null ? null : all.find((v) => v.name === data.best).valid_loss;
        /* null if measurements differ by more */
        if (c.fastest !== undefined) return c.fastest === null ? null : value(c, all.find((v) => v.name === c.fastest));
        const list = measured.map((v) => value(c, v)).filter((x) => x !== null);
        if (!c.better || list.length < 2 || Math.min(...list) === Math.max(...list)) return null;
        return c.better > 0 ? Math.max(...list) : Math.min(...list);
    }

    /* ---- the table ---- */

    const sorting = { key: null, up: true };
    const body = page.el("tbody"), heads = [];
    function order() {
        const list = [...all];
        if (!sorting.key) return list;
        const of = sorting.key === "name" ? (v) => v.name : (v) => value(column(sorting.key), v);
        return list.sort((a, b) => {
            const x = of(a), y = of(b);
            if (x === null || y === null) return (x === null) - (y === null); /* variants without a number stay below */
            const sign = x < y ? -1 : x > y ? 1 : 0;
            return sorting.up ? sign : -sign;
        });
    }
    function cells(v) {
        if (!v.measured) return [page.el("td", { class: "text", colspan: String(columns.length) }, `failed: ${v.failure || "not measured"}`)];
        return columns.map((c) => {
            const x = value(c, v), wins = x !== null && x === best(c);
            const text = x === null ? "–" : c.text(x, v);
            return page.el("td", null, wins ? page.el("b", { title: "the best" }, `${text} ★`) : text);
        });
    }
    function fill() {
        body.replaceChildren(...order().map((v) => page.el("tr", { "data-name": v.name }, page.el("th", { scope: "row" }, v.name), ...cells(v))));
        for (const h of heads) h.element.setAttribute("aria-sort", h.key !== sorting.key ? "none" : sorting.up ? "ascending" : "descending");
    }
    function head(key, name) {
        const element = page.el("th", { scope: "col", "aria-sort": "none" }, page.el("button", {
            type: "button", onclick: () => {
                sorting.up = sorting.key === key ? !sorting.up : key === "name" || column(key).better <= 0;
                sorting.key = key;
                fill();
                page.say(`sorted by ${name}, ${sorting.up ? "rising" : "falling"}`);
            },
        }, name));
        heads.push({ key, element });
        return element;
    }
    const table = page.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the table of variants, which may be wider than the window" }, page.el("table", null,
        page.el("caption", { class: "hidden" }, "the variants; press a column's name to sort by it"),
        page.el("thead", null, page.el("tr", null, head("name", "variant"), ...columns.map((c) => head(c.key, c.name)))), body));

    /* ---- quality, speed, memory ---- */

    const last = data.cache_lengths.length ? `decode${data.cache_lengths[data.cache_lengths.length - 1]}` : "train";
    const state = { x: last, size: "cache", at: -1 };
    const canvas = page.el("canvas", { tabindex: "0", role: "img" }), tip = page.el("div", { class: "tip", hidden: true });
    const points = () => shown().filter((v) => value(column(state.x), v) !== null && value(column("loss"), v) !== null);
    const sentence = (v) => `${v.name}: ${["loss", state.x, state.size].map((k) => `${column(k).name} ${column(k).text(value(column(k), v), v)}`).join(", ")}`;
    let places = [];

    function room(list, share) {
        const low = Math.min(...list), high = Math.max(...list), more = (high - low || Math.abs(high) * .2 || 1) * share;
        return [low - more, high + more];
    }
    function axes(context, box, x, y, xMarks, yMarks, width) {
        context.strokeStyle = page.colour("--rule");
        context.fillStyle = page.colour("--soft");
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const [t, text] of yMarks) {
            context.beginPath();
            context.moveTo(box.left, y(t));
            context.lineTo(box.left + box.width, y(t));
            context.stroke();
            context.fillText(text, box.left - 7, y(t));
        }
        context.textBaseline = "top";
        for (const [t, text] of xMarks) if (t >= 0) chart.centred(context, text, x(t), box.top + box.height + 7, width);
        context.textAlign = "right";
        context.fillText(`${column(state.x).name} →`, box.left + box.width, box.top + box.height + 23);
        context.textAlign = "left";
        context.fillText("↓ validation loss, less is better", 2, 2);
    }
    function draw() {
        const width = canvas.clientWidth, height = canvas.clientHeight, list = points();
        if (!width || !height) return;
        const context = page.context(canvas, width, height);
        canvas.setAttribute("aria-label", `Validation loss over ${column(state.x).name}; the area is ${column(state.size).name}. ${list.map(sentence).join("; ")}. The arrow keys go from variant to variant.`);
        context.font = "12px system-ui, sans-serif";
        places = [];
        if (!list.length) {
            context.fillStyle = page.colour("--soft");
            context.fillText("nothing was measured", 12, 24);
            return;
        }
        const xs = room(list.map((v) => value(column(state.x), v)), .15), ys = room(list.map((v) => v.valid_loss), .2);
        const box = { left: 0, top: 24, width: 0, height: height - 66 }, yMarks = chart.ticks(ys[0], ys[1], Math.max(2, Math.floor(box.height / 55)));
        box.left = Math.ceil(Math.max(...yMarks.map(([, text]) => context.measureText(text).width), 10)) + 14;
        box.width = Math.max(10, width - box.left - 14);
        const x = (t) => box.left + (t - xs[0]) / (xs[1] - xs[0]) * box.width, y = (t) => box.top + (1 - (t - ys[0]) / (ys[1] - ys[0])) * box.height;
        const xMarks = chart.fit(context, xs[0], xs[1], box.width, page.marks.short);
        canvas.marks = [xMarks, yMarks].map((marks) => marks.map(([, text]) => text)); /* for the tests of pages */
        axes(context, box, x, y, xMarks, yMarks, width);
        const largest = Math.max(...list.map((v) => value(column(state.size), v) || 0)) || 1;
        places = list.map((v) => ({ v, x: x(value(column(state.x), v)), y: y(v.valid_loss), r: Math.max(5, Math.min(30, width / 20) * Math.sqrt((value(column(state.size), v) || 0) / largest)) }));
        for (const p of [...places].sort((a, b) => b.r - a.r)) bubble(context, p);
        names(context, box);
        if (state.at >= 0 && places[state.at]) mark(context, places[state.at], width);
    }
    function bubble(context, p) {
        context.fillStyle = context.strokeStyle = page.colour(p.v.style.colour);
        context.lineWidth = 2;
        context.beginPath();
        context.arc(p.x, p.y, p.r, 0, 7);
        context.globalAlpha = .3;
        context.fill();
        context.globalAlpha = 1;
        context.setLineDash(p.v.style.dash);
        context.stroke();
        context.setLineDash([]);
    }
    /* Writes names beside the bubbles; a name that does not fit is replaced by its number in the legend. */
    function names(context, box) {
        const numbered = (text) => places.map((p) => ({ ...p, x: p.x - box.left, y: p.y - box.top, text: text(p) }));
        const whole = chart.names(context, numbered((p) => p.v.name), box.width, box.height, false);
        const placed = whole || chart.names(context, numbered((p) => String(drawn.indexOf(p.v) + 1)), box.width, box.height, true);
        legend.classList.toggle("numbered", !whole);
        context.textBaseline = "middle";
        context.textAlign = "left";
        canvas.names = placed.map((n) => ({ ...n, left: n.left + box.left, top: n.top + box.top, text: n.point.text }));
        for (const n of canvas.names) {
            const x = n.point.x + box.left, y = n.point.y + box.top, nearX = Math.max(n.left, Math.min(n.left + n.width, x)), nearY = Math.max(n.top, Math.min(n.top + n.height, y));
            /* a line from a name to its bubble, if they are apart */
            if (Math.hypot(nearX - x, nearY - y) > n.point.r + 9) {
                const share = n.point.r / Math.hypot(nearX - x, nearY - y);
                context.strokeStyle = page.colour("--soft");
                context.lineWidth = 1;
                context.beginPath();
                context.moveTo(x + (nearX - x) * share, y + (nearY - y) * share);
                context.lineTo(nearX, nearY);
                context.stroke();
            }
            context.fillStyle = page.colour("--ink");
            context.fillText(n.text, n.left + 2, n.top + n.height / 2);
        }
    }
    function mark(context, p, width) {
        context.strokeStyle = page.colour("--focus");
        context.lineWidth = 3;
        context.beginPath();
        context.arc(p.x, p.y, p.r + 3, 0, 7);
        context.stroke();
        tip.replaceChildren(page.el("b", null, p.v.name), ...["loss", state.x, state.size].map((k) => page.el("div", null, `${column(k).name}: ${column(k).text(value(column(k), p.v), p.v)}`)));
        tip.hidden = false;
        tip.style.left = p.x > width / 2 ? "" : `${p.x + p.r + 12}px`;
        tip.style.right = p.x > width / 2 ? `${width - p.x + p.r + 12}px` : "";
    }
    function look(at) {
        state.at = at;
        if (at < 0) tip.hidden = true;
        draw();
    }
    canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
        let near = -1, least = 60;
        places.forEach((p, i) => {
            const d = Math.hypot(p.x - x, p.y - y);
            if (d < Math.max(least, 0)) { least = d; near = i; }
        });
        if (near !== state.at) look(near);
    });
    canvas.addEventListener("pointerleave", () => look(-1));
    canvas.addEventListener("blur", () => look(-1));
    canvas.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
        if (!step || !places.length) return;
        event.preventDefault();
        look(Math.max(0, Math.min(places.length - 1, state.at + step)));
        page.say(sentence(places[state.at].v));
    });
    page.redraws.push(draw);

    /* ---- curves ---- */

    const many = data.seeds.length > 1;
    function curves(validation) {
        return () => shown().flatMap((v) => v.curves.map((c, s) => ({
            name: many ? `${v.name}, seed ${data.seeds[s]}` : v.name, ...v.style, thin: !validation || s > 0,
            x: validation ? c.valid_step : c.step, y: validation ? c.valid_loss : c.loss, dots: validation,
        })));
    }
    const steps = { name: "step", whole: true, from: 0, format: (x) => page.number(Math.round(x)), marks: page.marks.number };
    const nats = { format: (x) => page.number(x, 5) };
    /* One evaluation makes no curve; the rows below show it. */
    const evaluations = Math.max(0, ...all.flatMap((v) => v.curves.map((c) => c.valid_step.length)));
    const charts = [
        evaluations > 1 ? chart.make({ title: "Validation loss along the way, nats a token", wide: true, clip: true, x: () => steps, y: nats, series: curves(true) }) : null,
        chart.make({ title: "Training loss, smoothed, nats a token", wide: true, clip: true, x: () => steps, y: nats, series: curves(false) }),
    ].filter((c) => c);

    /* ---- the losses at the end, a row a variant: a dot a seed, a bar their mean ---- */

    const strip = page.el("div", { class: "strip", role: "list" });
    function fillStrip() {
        const list = shown().filter((v) => value(column("loss"), v) !== null).sort((a, b) => a.valid_loss - b.valid_loss);
        const losses = list.flatMap((v) => v.valid_losses).filter((x) => x !== null), range = losses.length ? room(losses, .06) : [0, 1];
        const at = (element, x) => {
            element.style.left = `${(100 * (x - range[0]) / (range[1] - range[0])).toFixed(2)}%`;
            return element;
        };
        const marks = chart.ticks(range[0], range[1], strip.clientWidth < 500 ? 3 : 6);
        const row = (v) => {
            const track = page.el("span", { class: "track", "aria-hidden": "true" }, ...marks.map(([t]) => at(page.el("i", { class: "line" }), t)),
                ...v.valid_losses.filter((x) => x !== null).map((x) => at(page.el("i", { class: "dot" }), x)), many ? at(page.el("i", { class: "mean" }), v.valid_loss) : null);
            track.style.color = page.colour(v.style.colour);
            return page.el("div", { class: "row", role: "listitem" }, page.el("span", { class: "name", title: v.name }, v.name), track,
                page.el("span", { class: "value" }, column("loss").text(v.valid_loss, v)));
        };
        const axis = page.el("div", { class: "row axis", "aria-hidden": "true" }, page.el("span", { class: "name" }), page.el("span", { class: "track" },
            ...marks.map(([t, text]) => at(page.el("i", { class: "mark" }, text), t))), page.el("span", { class: "value" }));
        strip.replaceChildren(...list.map(row), axis);
    }
    page.redraws.push(fillStrip);
    const redraw = () => {
        state.at = -1;
        tip.hidden = true;
        draw();
        fillStrip();
        for (const c of charts) c.redraw();
    };
    const legend = chart.legend(drawn, redraw);
    drawn.forEach((v, i) => v.button.setAttribute("data-number", String(i + 1)));

    /* ---- all of it ---- */

    const set = (key) => (v) => {
        state[key] = v;
        look(-1);
    };
    const speeds = columns.filter((c) => c.better > 0).map((c) => [c.key, c.name]), sizes = ["cache", "memory", "run", "parameters"].map((k) => [k, column(k).name]);
    fill();
    page.main.append(
        page.el("h2", null, "Measures"), table,
        page.el("p", { class: "note" }, `Loss over the whole validation part${many ? `, mean and standard deviation of ${data.seeds.length} seeds` : ""}. Training: median of the steps. ` +
            "Prompts and decoding: medians of measurements in which the variants alternate, with random weights and a context long enough for the cache; decoding at N begins after N tokens." +
            ` ★ marks the best of a column: a speed if it is higher than all others by more than its measurements differ; ${many ? "a loss if it is lower than all others by more than the deviations of both" : "no loss, as one seed does not tell how large the noise is (--seeds 3 does)"}.` + (data.machine ? ` Machine: ${data.machine}.` : "")),
        page.el("h2", null, "Quality, speed, memory"),
        page.el("div", { class: "controls" }, page.select("Speed", speeds, state.x, set("x")), page.select("Area of a bubble", sizes, state.size, set("size"))),
        legend,
        page.el("figure", { class: "chart wide" }, page.el("div", { class: "frame" }, canvas, tip)),
        page.el("figure", { class: "chart" }, page.el("figcaption", null, `Validation loss at the end, nats a token${many ? ": a dot a seed, a bar their mean" : ""}`), strip),
        page.el("h2", null, "Training"),
        page.el("div", { class: "charts" }, ...charts.map((c) => c.element)));
    redraw();
})();
