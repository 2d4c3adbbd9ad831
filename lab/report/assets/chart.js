/* chart.js: curves over a shared axis. A series is {name, colour, dash, x: […], y: […], faint, low, high, dots}; null in y is a
 * gap. The pointer, or the arrow keys on the chart, read the values at a place. */
"use strict";
const chart = {
    COLOURS: 8,
    DASHES: [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 4, 1, 4], [14, 4], [12, 3, 2, 3, 2, 3], [5, 8]],

    /* How the i-th of several things is drawn everywhere: colours first, then dashes, so that no two look alike. */
    style(i) { return { colour: `--c${i % chart.COLOURS}`, dash: chart.DASHES[(i + Math.floor(i / chart.COLOURS)) % chart.DASHES.length] }; },

    /* Round numbers between low and high, about `count` of them. */
    ticks(low, high, count) {
        const rough = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
        const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || 10 * power, out = [];
        for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) out.push(Math.abs(t) < step * 1e-9 ? 0 : t);
        return out;
    },
    logTicks(low, high) {
        const out = [];
        for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++)
            for (const m of [1, 2, 5]) if (m * 10 ** p >= low * .999 && m * 10 ** p <= high * 1.001) out.push(m * 10 ** p);
        return out.length > 9 ? out.filter((t) => Math.abs(Math.log10(t) % 1) < 1e-6) : out;
    },

    /* A chart: {title, wide, zero, x: {name, format}, y: {format, log}, series: () => […]}; series are asked for at every drawing. */
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
    /* Of losses the first steps would squeeze all others: the highest hundredth does not widen the axis. */
    yBounds(view, list) {
        const { options } = view, all = [];
        for (const s of list) if (!s.faint) for (const v of s.y) if (v !== null && Number.isFinite(v) && (!options.y.log || v > 0)) all.push(v);
        if (!all.length) return null;
        all.sort((a, b) => a - b);
        let low = all[0], high = all[options.clip ? Math.min(all.length - 1, Math.ceil(all.length * .99)) : all.length - 1];
        if (options.zero) low = Math.min(0, low);
        if (options.y.log) return low < high ? [low / 1.1, high * 1.1] : [low / 2, high * 2];
        const room = (high - low || Math.abs(high) || 1) * .06;
        return [options.zero && low === 0 ? 0 : low - room, high + room];
    },

    draw(view) {
        const { canvas, options } = view, width = canvas.clientWidth, height = canvas.clientHeight;
        if (!width || !height) return;
        const context = page.context(canvas, width, height), list = options.series();
        const x = chart.bounds(list, (s) => [s.x]), y = chart.yBounds(view, list);
        canvas.setAttribute("aria-label", chart.describe(view, list));
        context.font = "12px system-ui, sans-serif";
        if (!x || !y) {
            context.fillStyle = page.colour("--soft");
            context.fillText("nothing is logged yet", 12, 24);
            view.scale = null;
            return;
        }
        if (x[0] === x[1]) x[1] = x[0] + 1;
        chart.place(view, context, x, y, width, height);
        chart.axes(view, context);
        context.save();
        context.beginPath();
        context.rect(view.box.left, view.box.top, view.box.width, view.box.height);
        context.clip();
        for (const s of list) if (s.low) chart.band(view, context, s);
        for (const s of list) chart.curve(view, context, s);
        context.restore();
        if (view.at !== null) chart.mark(view, context, list);
    },
    place(view, context, x, y, width, height) {
        const log = view.options.y.log, f = log ? Math.log10 : (v) => v;
        view.yTicks = log ? chart.logTicks(y[0], y[1]) : chart.ticks(y[0], y[1], Math.max(2, Math.floor(height / 55)));
        const label = Math.max(...view.yTicks.map((t) => context.measureText(view.options.y.format(t)).width), 10);
        const box = { left: Math.ceil(label) + 14, top: 10, width: 0, height: height - 46 };
        box.width = Math.max(10, width - box.left - 14);
        view.box = box;
        view.x = x;
        view.scale = {
            x: (v) => box.left + (v - x[0]) / (x[1] - x[0]) * box.width,
            y: (v) => box.top + (1 - (f(v) - f(y[0])) / (f(y[1]) - f(y[0]))) * box.height,
        };
        view.xTicks = chart.ticks(x[0], x[1], Math.max(2, Math.floor(box.width / 90)));
    },
    axes(view, context) {
        const { box, scale, options } = view;
        context.lineWidth = 1;
        context.strokeStyle = page.colour("--rule");
        context.fillStyle = page.colour("--soft");
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const t of view.yTicks) {
            context.beginPath();
            context.moveTo(box.left, Math.round(scale.y(t)) + .5);
            context.lineTo(box.left + box.width, Math.round(scale.y(t)) + .5);
            context.stroke();
            context.fillText(options.y.format(t), box.left - 7, scale.y(t));
        }
        context.textAlign = "center";
        context.textBaseline = "top";
        for (const t of view.xTicks) context.fillText(options.x().format(t), scale.x(t), box.top + box.height + 7);
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

    /* What each curve is at x: its nearest point. */
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
        const rows = values.map((v) => page.el("div", null, `${v.series.name}: ${options.y.format(v.y, true)}`));
        view.tip.replaceChildren(page.el("b", null, `${options.x().name} ${options.x().format(at, true)}`), ...rows);
        view.tip.hidden = false;
        const right = scale.x(at) > box.left + box.width / 2;
        view.tip.style.left = right ? "" : `${scale.x(at) + 12}px`;
        view.tip.style.right = right ? `${view.canvas.clientWidth - scale.x(at) + 12}px` : "";
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
            return y.length ? `${s.name} from ${view.options.y.format(y[0], true)} to ${view.options.y.format(y[y.length - 1], true)}` : `${s.name}: nothing yet`;
        });
        return `${view.options.title} over ${view.options.x().name}: ${parts.slice(0, 8).join("; ")}. The arrow keys read values.`;
    },

    /* Buttons that show and hide: names with their line; changed() when one was pressed. */
    legend(items, changed) {
        const swatch = (style) => {
            const canvas = page.el("canvas", { "aria-hidden": "true" });
            const draw = () => {
                const context = page.context(canvas, 32, 13);
                context.strokeStyle = page.colour(style.colour);
                context.lineWidth = 3;
                context.setLineDash(style.dash);
                context.moveTo(0, 6.5);
                context.lineTo(32, 6.5);
                context.stroke();
            };
            page.redraws.push(draw);
            draw();
            return canvas;
        };
        return page.el("div", { class: "legend", role: "group", "aria-label": "which are shown" }, ...items.map((item) => {
            const button = page.el("button", {
                type: "button", "aria-pressed": String(!item.hidden), onclick: () => {
                    item.hidden = !item.hidden;
                    button.setAttribute("aria-pressed", String(!item.hidden));
                    changed();
                },
            }, swatch(item.style), item.name);
            return button;
        }));
    },
};
