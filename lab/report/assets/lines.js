/* lines.js: the tokens of a head in two columns, queries on the left and keys on the right, joined by lines whose
 * strength is the weight. A token under the pointer, or reached by the arrow keys, shows its own lines only; a click
 * fixes it. */
"use strict";
const lines = {
    SHOWN: 120,  /* tokens of a column at a time */
    DRAWN: 4000, /* lines at most: the strongest */

    /* Draws {rows, columns, rowLabel, columnLabel, entries(i): [[column, weight], …]}; read(side, index) tells what
     * is chosen. */
    make(grid, threshold, read) {
        const view = { grid, threshold, read, from: 0, chosen: null, kept: null };
        view.canvas = page.el("canvas", { "aria-hidden": "true" });
        view.left = page.el("ol", { class: "column left", "aria-label": "tokens that look" });
        view.right = page.el("ol", { class: "column right", "aria-label": "tokens that are looked at" });
        view.columns = page.el("div", { class: "columns" }, view.canvas, view.left, view.right);
        view.columns.addEventListener("pointerleave", () => lines.choose(view, view.kept));
        view.columns.addEventListener("keydown", (event) => lines.key(view, event));
        view.pager = lines.pager(view);
        view.element = page.el("div", null, view.pager, view.columns);
        view.redraw = () => lines.draw(view);
        lines.fill(view);
        return view;
    },

    pager(view) {
        const most = Math.max(view.grid.rows, view.grid.columns);
        if (most <= lines.SHOWN) return null;
        const text = page.el("span", { class: "note" });
        const step = (by) => page.el("button", {
            type: "button", onclick: () => {
                view.from = Math.max(0, Math.min(view.from + by, most - lines.SHOWN));
                lines.fill(view);
                lines.draw(view);
            },
        }, by < 0 ? "← earlier" : "later →");
        view.pageText = text;
        return page.el("div", { class: "controls" }, step(-lines.SHOWN), step(lines.SHOWN), text);
    },

    fill(view) {
        const end = (count) => Math.min(count, view.from + lines.SHOWN);
        const token = (side, index, label) => page.el("button", {
            type: "button", class: "token", tabindex: "-1", "data-side": side, "data-index": index,
            "aria-label": `token ${index}, ${label}`,
            onpointerenter: () => lines.choose(view, [side, index]),
            onfocus: () => lines.choose(view, [side, index]),
            onclick: () => {
                view.kept = view.kept && view.kept[0] === side && view.kept[1] === index ? null : [side, index];
                lines.choose(view, [side, index]);
            },
        }, ...(side ? [page.el("span", { class: "at" }, String(index)), label] : [label, page.el("span", { class: "at" }, String(index))]));
        const list = (side, count, label) => {
            const items = [];
            for (let i = Math.min(view.from, Math.max(0, count - 1)); i < end(count); i++) items.push(page.el("li", null, token(side, i, label(i))));
            return items;
        };
        view.left.replaceChildren(...list(0, view.grid.rows, view.grid.rowLabel));
        view.right.replaceChildren(...list(1, view.grid.columns, view.grid.columnLabel));
        const first = view.left.querySelector("button") || view.right.querySelector("button");
        if (first) first.tabIndex = 0;
        view.chosen = view.kept = null;
        if (view.pageText) view.pageText.textContent = `tokens ${view.from} to ${Math.min(Math.max(view.grid.rows, view.grid.columns), view.from + lines.SHOWN) - 1} of ${Math.max(view.grid.rows, view.grid.columns)}`;
    },

    button(view, side, index) {
        return (side ? view.right : view.left).querySelector(`[data-index="${index}"]`);
    },

    choose(view, token) {
        view.chosen = token;
        for (const b of view.columns.querySelectorAll(".chosen")) b.classList.remove("chosen");
        if (token) {
            const button = lines.button(view, token[0], token[1]);
            if (button) button.classList.add("chosen");
            view.read(token[0], token[1]);
        }
        lines.draw(view);
    },

    key(view, event) {
        const at = event.target.dataset;
        if (!at || at.index === undefined) return;
        const side = Number(at.side), index = Number(at.index);
        const to = { ArrowUp: [side, index - 1], ArrowDown: [side, index + 1], ArrowLeft: [0, index], ArrowRight: [1, index] }[event.key];
        if (event.key === "Escape") { view.kept = null; lines.choose(view, null); }
        const button = to && lines.button(view, to[0], to[1]);
        if (!button) return;
        event.preventDefault();
        event.target.tabIndex = -1;
        button.tabIndex = 0;
        button.focus();
    },

    /* The lines to draw as [row, column, weight], the strongest last. */
    wanted(view) {
        const { grid, chosen } = view, all = [];
        const begin = view.from, end = Math.min(grid.rows, view.from + lines.SHOWN);
        for (let i = begin; i < end; i++) {
            if (chosen && chosen[0] === 0 && chosen[1] !== i) continue;
            for (const [j, w] of grid.entries(i))
                if (w >= view.threshold && w > 0 && (!chosen || chosen[0] === 0 || chosen[1] === j)) all.push([i, j, w]);
        }
        all.sort((a, b) => a[2] - b[2]);
        return all.slice(Math.max(0, all.length - lines.DRAWN));
    },

    draw(view) {
        const box = view.columns.getBoundingClientRect();
        if (!box.width) return;
        const context = page.context(view.canvas, box.width, box.height);
        const place = (side, index) => {
            const count = side ? view.grid.columns : view.grid.rows, from = Math.min(view.from, Math.max(0, count - 1));
            const button = lines.button(view, side, index), row = 24;
            if (!button) return [side ? box.width * .66 : box.width * .34, index < from ? -8 : box.height + 8];
            const b = button.getBoundingClientRect();
            return [side ? b.left - box.left - 2 : b.right - box.left + 2, (index - from + .5) * row - 1];
        };
        const places = [new Map(), new Map()];
        const known = (side, index) => {
            if (!places[side].has(index)) places[side].set(index, place(side, index));
            return places[side].get(index);
        };
        context.strokeStyle = page.colour("--accent");
        for (const [i, j, w] of lines.wanted(view)) {
            const [x0, y0] = known(0, i), [x1, y1] = known(1, j), bend = (x1 - x0) * .45;
            context.globalAlpha = Math.min(1, (view.chosen ? .3 : .13) + w * .9);
            context.lineWidth = .7 + 3.3 * w;
            context.beginPath();
            context.moveTo(x0, y0);
            context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
            context.stroke();
        }
    },
};
