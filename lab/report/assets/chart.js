/* chart.js: curves over a shared axis. A series is {name, colour, dash, x: […], y: […], faint, low, high, dots};
 * null in y is a gap. The pointer, or the arrow keys on the chart, read the values at a place. */
"use strict";
const chart = {
    COLOURS: 8,
    DASHES: [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 4, 1, 4], [14, 4], [12, 3, 2, 3, 2, 3], [5, 8]],

    /* The style of the i-th of several things, the same everywhere: colours vary first, then dashes, so that no two
     * are alike. */
    style(i) { return { colour: `--c${i % chart.COLOURS}`, dash: chart.DASHES[(i + Math.floor(i / chart.COLOURS)) % chart.DASHES.length] }; },

    /* Returns at most about `count` round numbers between low and high, as [number, text]; `whole`: no fractions;
     * `marks` writes them (page.marks). */
    ticks(low, high, count, marks = page.marks.number, whole = false) {
        const rough = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough)), out = [];
        let step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * (1 - 1e-9)) || 10 * power;
        if (whole) step = Math.max(1, step);
        /* never −0 */
        for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(i * step || 0);
        const texts = marks(out, step);
        return out.map((t, i) => [t, texts[i]]);
    },
    /* Returns 1, 2 and 5 of every power of ten, or the powers alone; round numbers if low and high are close. */
    logTicks(low, high, count) {
        const out = [];
        for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++)
            for (const m of [1, 2, 5]) if (m * 10 ** p >= low * .999 && m * 10 ** p <= high * 1.001) out.push(m * 10 ** p);
        if (out.length < 3) return chart.ticks(low, high, count).filter(([t]) => t > 0);
        return (out.length > 9 ? out.filter((t) => Math.abs(Math.log10(t) % 1) < 1e-6) : out).map((t) => [t, page.number(t, 3)]);
    },

    /* A chart: {title, wide, zero, x: {name, format, marks, whole, from}, y: {format, log}, series: () => […]}. Each
     * drawing asks for the series. `from`: the axis begins at this value, or before. */
    make(options) {
        const canvas = page.el("canvas", { tabindex: "0", role: "img" });
        const tip = page.el("div", { class: "tip", hidden: true });
        const frame = page.el("div", { class: "frame" }, canvas, tip);
        const view = { options, canvas, tip, at: null };
        view.element = page.el("figure", { class: options.wide ? "chart wide" : "chart" }, page.el("figcaption", null, options.title), frame);
        view.redraw = () => chart.draw(view);
        canvas.addEventListener("pointermove", (event) => chart.point(view, event.clientX - canvas.getBoundingClientRect().left));
        canvas.addEventListener("pointerleave", () => { if (document.activeElement !== canvas) chart.leave(view); });
        canvas.addEventListener("blur", () => chart.leave(view));
        canvas.addEventListener("keydown", (event) => chart.key(view, event));
        page.redraws.push(view.redraw);
        return view;
    },

    bounds(list, pick) {
        let low = Infinity, high = -Infinity;
        for (const s of list) for (const values of pick(s)) if (values) for (const v of values) {
            if (v === null || !Number.isFinite(v)) continue;
            if (v < low) low = v;
            if (v > high) high = v;
        }
        return low <= high ? [low, high] : null;
    },
    /* The losses of the first steps would squeeze all others: the highest hundredth of a curve does not widen the
     * axis. */
    yBounds(view, list) {
        const { options } = view;
        let low = Infinity, high = -Infinity;
        for (const s of list) {
            const all = s.faint ? [] : s.y.filter((v) => v !== null && Number.isFinite(v) && (!options.y.log || v > 0)).sort((a, b) => a - b);
            if (!all.length) continue;
            low = Math.min(low, all[0]);
            high = Math.max(high, all[options.clip ? Math.min(all.length - 1, Math.ceil(all.length * .99)) : all.length - 1]);
        }
        if (low > high) return null;
        if (options.zero) low = Math.min(0, low);
        if (options.y.log) return low < high ? [low / 1.1, high * 1.1] : [low / 2, high * 2];
        const room = (high - low || Math.abs(high) || 1) * .06;
        return [options.zero && low === 0 ? 0 : low - room, high + room];
    },

    draw(view) {
        const { canvas, options } = view, width = canvas.clientWidth, height = canvas.clientHeight;
        if (!width || !height) return;
        const context = page.context(canvas, width, height), list = options.series();
        const x = chart.bounds(list, (s) => [s.x]), y = chart.yBounds(view, list), from = options.x().from;
        canvas.setAttribute("aria-label", chart.describe(view, list));
        context.font = "12px system-ui, sans-serif";
        if (!x || !y) {
            context.fillStyle = page.colour("--soft");
            context.fillText("nothing is logged yet", 12, 24);
            view.scale = null;
            return;
        }
        if (from !== undefined) x[0] = Math.min(x[0], from);
        if (x[0] === x[1]) x[x[0] > 0 ? 0 : 1] = x[0] > 0 ? 0 : x[0] + 1; /* a single place: the axis begins at 0 */
        chart.place(view, context, x, y, width, height);
        chart.axes(view, context);
        context.save();
        context.beginPath();
        /* points at the edge are drawn whole */
        context.rect(view.box.left - 4, view.box.top - 4, view.box.width + 8, view.box.height + 8);
        context.clip();
        for (const s of list) if (s.low) chart.band(view, context, s);
        for (const s of list) chart.curve(view, context, s);
        context.restore();
        if (view.at !== null) chart.mark(view, context, list);
    },
    place(view, context, x, y, width, height) {
        const log = view.options.y.log, f = log ? Math.log10 : (v) => v;
        const marks = Math.max(2, Math.floor(height / 55));
        view.yTicks = log ? chart.logTicks(y[0], y[1], marks) : chart.ticks(y[0], y[1], marks, view.options.y.marks);
        const label = Math.max(...view.yTicks.map(([, text]) => context.measureText(text).width), 10);
        const box = { left: Math.ceil(label) + 14, top: 10, width: 0, height: height - 46 };
        box.width = Math.max(10, width - box.left - 14);
        view.box = box;
        view.x = x;
        view.scale = {
            x: (v) => box.left + (v - x[0]) / (x[1] - x[0]) * box.width,
            y: (v) => box.top + (1 - (f(v) - f(y[0])) / (f(y[1]) - f(y[0]))) * box.height,
        };
        view.xTicks = chart.fit(context, x[0], x[1], box.width, view.options.x().marks, view.options.x().whole);
    },
    /* The marks along `width` pixels: as many as fit without touching. */
    fit(context, low, high, width, marks, whole) {
        for (let count = Math.max(2, Math.floor(width / 60)); ; count--) {
            const list = chart.ticks(low, high, count, marks, whole), room = list.length > 1 ? (list[1][0] - list[0][0]) / (high - low) * width : width;
            if (count <= 1 || Math.max(...list.map(([, text]) => context.measureText(text).width), 0) + 14 <= room) return list;
        }
    },
    /* Writes a text centred at x, moved so that it stays on the canvas. */
    centred(context, text, x, y, width) {
        const half = context.measureText(text).width / 2;
        context.textAlign = "center";
        context.fillText(text, Math.max(half, Math.min(width - half, x)), y);
    },
    axes(view, context) {
        const { box, scale, options } = view;
        /* for the tests of pages */
        view.canvas.marks = [view.xTicks, view.yTicks].map((list) => list.map(([, text]) => text));
        context.lineWidth = 1;
        context.strokeStyle = page.colour("--rule");
        context.fillStyle = page.colour("--soft");
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const [t, text] of view.yTicks) {
            context.beginPath();
            context.moveTo(box.left, Math.round(scale.y(t)) + .5);
            context.lineTo(box.left + box.width, Math.round(scale.y(t)) + .5);
            context.stroke();
            context.fillText(text, box.left - 7, scale.y(t));
        }
        context.textBaseline = "top";
        for (const [t, text] of view.xTicks) chart.centred(context, text, scale.x(t), box.top + box.height + 7, view.canvas.clientWidth);
        context.textAlign = "right";
        context.fillText(options.x().name, box.left + box.width, box.top + box.height + 22);
    },
    band(view, context, s) {
        context.fillStyle = page.colour(s.colour);
        context.globalAlpha = .15;
        context.beginPath();
        for (let i = 0; i < s.x.length; i++) if (s.x[i] !== null && s.high[i] !== null) context.lineTo(view.scale.x(s.x[i]), view.scale.y(s.high[i]));
        for (let i = s.x.length - 1; i >= 0; i--) if (s.x[i] !== null && s.low[i] !== null) context.lineTo(view.scale.x(s.x[i]), view.scale.y(s.low[i]));
        context.fill();
        context.globalAlpha = 1;
    },
    curve(view, context, s) {
        context.strokeStyle = context.fillStyle = page.colour(s.colour);
        context.lineWidth = s.faint || s.thin ? 1.1 : 2;
        context.globalAlpha = s.faint ? .28 : 1;
        context.lineJoin = "round";
        context.setLineDash(s.faint ? [] : s.dash || []);
        context.beginPath();
        let pen = false;
        for (let i = 0; i < s.x.length; i++) {
            const draws = s.x[i] !== null && s.y[i] !== null && (!view.options.y.log || s.y[i] > 0);
            if (draws) context[pen ? "lineTo" : "moveTo"](view.scale.x(s.x[i]), view.scale.y(s.y[i]));
            pen = draws;
        }
        context.stroke();
        context.setLineDash([]);
        if (s.dots || s.x.length === 1)
            for (let i = 0; i < s.x.length; i++) if (s.x[i] !== null && s.y[i] !== null) {
                context.beginPath();
                context.arc(view.scale.x(s.x[i]), view.scale.y(s.y[i]), 2.6, 0, 7);
                context.fill();
            }
        context.globalAlpha = 1;
    },

    /* Returns the value of each curve at x: its nearest point. */
    values(list, x) {
        const out = [];
        for (const s of list) {
            if (s.faint || !s.x.length) continue;
            let best = -1;
            for (let i = 0; i < s.x.length; i++)
                if (s.x[i] !== null && s.y[i] !== null && (best < 0 || Math.abs(s.x[i] - x) < Math.abs(s.x[best] - x))) best = i;
            if (best >= 0) out.push({ series: s, x: s.x[best], y: s.y[best] });
        }
        return out;
    },
    mark(view, context, list) {
        const { box, scale, options } = view, at = Math.max(view.x[0], Math.min(view.x[1], view.at));
        const values = chart.values(list, at);
        context.strokeStyle = page.colour("--soft");
        context.beginPath();
        context.moveTo(Math.round(scale.x(at)) + .5, box.top);
        context.lineTo(Math.round(scale.x(at)) + .5, box.top + box.height);
        context.stroke();
        for (const v of values) {
            context.fillStyle = page.colour(v.series.colour);
            context.beginPath();
            context.arc(scale.x(v.x), scale.y(v.y), 4, 0, 7);
            context.fill();
        }
        const rows = values.map((v) => page.el("div", null, `${v.series.name}: ${options.y.format(v.y)}`));
        view.tip.replaceChildren(page.el("b", null, `${options.x().name} ${options.x().format(at)}`), ...chart.first(rows, Math.floor(box.height / 18) - 2));
        view.tip.hidden = false;
        const right = scale.x(at) > box.left + box.width / 2;
        view.tip.style.left = right ? "" : `${scale.x(at) + 12}px`;
        view.tip.style.right = right ? `${view.canvas.clientWidth - scale.x(at) + 12}px` : "";
    },
    /* Returns as many rows of a tip as fit, and the number of the others. */
    first(rows, most) {
        return rows.length <= most ? rows : [...rows.slice(0, Math.max(1, most - 1)), page.el("div", null, `and ${rows.length - Math.max(1, most - 1)} more`)];
    },
    point(view, pixel) {
        if (!view.scale) return;
        const { box } = view;
        view.at = view.x[0] + (pixel - box.left) / box.width * (view.x[1] - view.x[0]);
        chart.draw(view);
    },
    leave(view) {
        view.at = null;
        view.tip.hidden = true;
        chart.draw(view);
    },
    key(view, event) {
        if (!view.scale) return;
        const span = view.x[1] - view.x[0], at = view.at === null ? view.x[1] : view.at;
        const to = { ArrowLeft: at - span / 50, ArrowRight: at + span / 50, Home: view.x[0], End: view.x[1] }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        view.at = Math.max(view.x[0], Math.min(view.x[1], to));
        chart.draw(view);
        page.say(view.tip.innerText.replace(/\n/g, ", "));
    },
    describe(view, list) {
        const parts = list.filter((s) => !s.faint).map((s) => {
            const y = s.y.filter((v) => v !== null);
            return y.length ? `${s.name} from ${view.options.y.format(y[0])} to ${view.options.y.format(y[y.length - 1])}` : `${s.name}: nothing yet`;
        });
        return `${view.options.title} over ${view.options.x().name}: ${parts.slice(0, 8).join("; ")}. The arrow keys read values.`;
    },

    /* Places the names of points [{x, y, r, text}] so that none meets another name, another point or the edge:
     * beside its point, above, below, then farther away. Returns [{left, top, width, height, point}], or null if
     * some do not fit; `partly`: leaves those out. */
    LINE: 15,
    names(context, points, width, height, partly) {
        const placed = [], meets = (a, b) => a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
        const covers = (box, p) => Math.hypot(Math.max(box.left - p.x, 0, p.x - box.left - box.width), Math.max(box.top - p.y, 0, p.y - box.top - box.height));
        for (const p of [...points].sort((a, b) => a.y - b.y)) {
            const size = { width: Math.ceil(context.measureText(p.text).width) + 4, height: chart.LINE, point: p };
            let best = null, least = Infinity;
            for (const far of [5, 16, 30, 48, 70, 96])
                for (const [dx, dy] of [[1, 0], [-1, 0], [0, -1], [0, 1], [.7, -.7], [.7, .7], [-.7, -.7], [-.7, .7]]) {
                    const x = p.x + dx * (p.r + far), y = p.y + dy * (p.r + far);
                    const box = { ...size, left: x - size.width * (1 - Math.sign(dx)) / 2, top: y - size.height * (1 - Math.sign(dy)) / 2 };
                    if (box.left < 0 || box.top < 0 || box.left + box.width > width || box.top + box.height > height || placed.some((other) => meets(box, other))) continue;
                    const cost = far / 10 + 3 * points.filter((other) => other !== p && covers(box, other) < other.r).length + 20 * points.filter((other) => other !== p && covers(box, other) < 4).length;
                    if (cost < least) { least = cost; best = box; }
                }
            if (best) placed.push(best);
            else if (!partly) return null;
        }
        return placed;
    },

    /* Draws a piece of a line: {colour, dash, thin, faint, dots}. */
    swatch(style) {
        const canvas = page.el("canvas", { "aria-hidden": "true" });
        const draw = () => {
            const context = page.context(canvas, 32, 13);
            context.strokeStyle = context.fillStyle = page.colour(style.colour);
            context.globalAlpha = style.faint ? .4 : 1;
            context.lineWidth = style.thin || style.faint ? 1.2 : 3;
            context.setLineDash(style.dash || []);
            context.moveTo(0, 6.5);
            context.lineTo(32, 6.5);
            context.stroke();
            if (!style.dots) return;
            context.beginPath();
            context.arc(16, 6.5, 4, 0, 7);
            context.fill();
        };
        page.redraws.push(draw);
        draw();
        return canvas;
    },
    /* The key of a chart: items {name, colour, dash, thin, faint, dots}. */
    meaning(items) {
        return page.el("ul", { class: "key" }, ...items.map((item) => page.el("li", null, chart.swatch(item), item.name)));
    },

    /* Buttons that show and hide items; each has a name and its line; calls changed() after a press. */
    legend(items, changed) {
        return page.el("div", { class: "legend", role: "group", "aria-label": "which are shown" }, ...items.map((item) => {
            const button = page.el("button", {
                type: "button", "aria-pressed": String(!item.hidden), onclick: () => {
                    item.hidden = !item.hidden;
                    button.setAttribute("aria-pressed", String(!item.hidden));
                    changed();
                },
            }, chart.swatch(item.style), item.name);
            item.button = button;
            return button;
        }));
    },
};
