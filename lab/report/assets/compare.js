/* compare.js: the page of a comparison: a table that is sorted by any column, quality against speed with memory as the size of a
 * bubble, and the loss curves of all variants. */
"use strict";
(function () {
    const data = page.data, all = data.variants;
    for (const v of all) {
        v.hidden = false;
        v.measured = v.parameters !== undefined;
    }
    const measured = all.filter((v) => v.measured);
    const drawn = all.filter((v) => v.measured || v.curves.some((c) => c.step.length)); /* one that failed may have curves */
    all.forEach((v) => { v.style = chart.style(Math.max(0, drawn.indexOf(v))); });
    const shown = () => all.filter((v) => !v.hidden);

    /* ---- what there is to measure: name, value, better (−1 less, 1 more, 0 neither), text ---- */

    const bytes = (x) => {
        const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        let unit = 0;
        while (x >= 1023.5 && unit < 4) { x /= 1024; unit++; }
        return `${page.number(x, 3)} ${units[unit]}`;
    };
    const columns = [
        { key: "parameters", name: "parameters", value: (v) => v.parameters, better: 0, text: page.short },
        { key: "loss", name: "validation loss", value: (v) => v.valid_loss, better: -1, text: (x, v) => v && v.deviation ? `${x.toFixed(4)} ± ${v.deviation.toFixed(4)}` : x.toFixed(4) },
        { key: "train", name: "training, tokens/s", value: (v) => v.train_tokens_per_second, better: 1, text: page.short },
        { key: "prompt", name: `prompt of ${page.number(data.prompt_tokens)}, tokens/s`, value: (v) => v.prompt_tokens_per_second, better: 1, text: page.short },
        ...data.cache_lengths.map((n, i) => ({ key: `decode${n}`, name: `decoding at ${page.number(n)}, tokens/s`, value: (v) => v.decode_tokens_per_second[i], better: 1, text: page.short })),
        { key: "cache", name: "cache a token", value: (v) => v.cache_bytes_per_token, better: -1, text: bytes },
        { key: "memory", name: "memory to train", value: (v) => v.train_bytes, better: -1, text: bytes },
        { key: "run", name: "memory to run", value: (v) => v.run_bytes, better: -1, text: bytes },
    ];
    const column = (key) => columns.find((c) => c.key === key);
    const value = (c, v) => {
        const x = v.measured ? c.value(v) : null;
        return x === undefined || x === null || !Number.isFinite(x) ? null : x;
    };
    function best(c) {
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
            if (x === null || y === null) return (x === null) - (y === null); /* what has no number stays below */
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
    function axes(context, box, x, y, xs, ys) {
        context.strokeStyle = page.colour("--rule");
        context.fillStyle = page.colour("--soft");
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const t of chart.ticks(ys[0], ys[1], Math.max(2, Math.floor(box.height / 55)))) {
            context.beginPath();
            context.moveTo(box.left, y(t));
            context.lineTo(box.left + box.width, y(t));
            context.stroke();
            context.fillText(page.number(t, 4), box.left - 7, y(t));
        }
        context.textAlign = "center";
        context.textBaseline = "top";
        for (const t of chart.ticks(xs[0], xs[1], Math.max(2, Math.floor(box.width / 110)))) if (t >= 0) context.fillText(page.short(t), x(t), box.top + box.height + 7);
        context.textAlign = "right";
        context.fillText(`${column(state.x).name} →`, box.left + box.width, box.top + box.height + 23);
        context.textAlign = "left";
        context.fillText("↓ validation loss, less is better", box.left + 4, box.top + 2);
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
        const box = { left: 64, top: 10, width: Math.max(10, width - 90), height: height - 52 };
        const xs = room(list.map((v) => value(column(state.x), v)), .25), ys = room(list.map((v) => v.valid_loss), .35);
        const x = (t) => box.left + (t - xs[0]) / (xs[1] - xs[0]) * box.width, y = (t) => box.top + (1 - (t - ys[0]) / (ys[1] - ys[0])) * box.height;
        axes(context, box, x, y, xs, ys);
        const largest = Math.max(...list.map((v) => value(column(state.size), v) || 0)) || 1;
        places = list.map((v) => ({ v, x: x(value(column(state.x), v)), y: y(v.valid_loss), r: Math.max(5, 30 * Math.sqrt((value(column(state.size), v) || 0) / largest)) }));
        for (const p of [...places].sort((a, b) => b.r - a.r)) bubble(context, p);
        names(context, width);
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
    /* Beside the bubbles, from top to bottom; where two would meet, the lower one moves down. */
    function names(context, width) {
        const taken = [];
        context.fillStyle = page.colour("--ink");
        context.textBaseline = "middle";
        for (const p of [...places].sort((a, b) => a.y - b.y)) {
            const long = context.measureText(p.v.name).width, right = p.x + p.r + 6 + long > width;
            const left = right ? p.x - p.r - 6 - long : p.x + p.r + 6;
            let y = p.y;
            for (const t of taken) if (t.left < left + long && left < t.left + t.long && y < t.y + 14) y = t.y + 14;
            taken.push({ left, long, y });
            context.textAlign = "left";
            context.fillText(p.v.name, left, y);
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
    const steps = { name: "step", format: (x, full) => full ? page.number(Math.round(x)) : page.short(x) };
    const nats = { format: (x, full) => page.number(x, full ? 5 : 3) };
    const charts = [
        chart.make({ title: "Validation loss along the way, nats a token", wide: true, clip: true, x: () => steps, y: nats, series: curves(true) }),
        chart.make({ title: "Training loss, nats a token", wide: true, clip: true, x: () => steps, y: nats, series: curves(false) }),
    ];
    const redraw = () => {
        state.at = -1;
        tip.hidden = true;
        draw();
        for (const c of charts) c.redraw();
    };

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
            "Prompts and decoding: medians of measurements in which the variants took turns, with random weights and a context long enough for the cache; decoding at N begins behind N tokens." +
            " ★ is the best of its column." + (data.machine ? ` Machine: ${data.machine}.` : "")),
        page.el("h2", null, "Quality, speed, memory"),
        page.el("div", { class: "controls" }, page.select("Speed", speeds, state.x, set("x")), page.select("Area of a bubble", sizes, state.size, set("size"))),
        chart.legend(drawn, redraw),
        page.el("figure", { class: "chart wide" }, page.el("div", { class: "frame" }, canvas, tip)),
        page.el("h2", null, "Training"),
        page.el("div", { class: "charts" }, ...charts.map((c) => c.element)));
    redraw();
})();
