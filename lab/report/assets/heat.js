/* heat.js: weights as colours, and as a matrix that can be read with the pointer or the arrow keys. */
"use strict";
const heat = {
    /* The stops of a colour ramp whose lightness only falls (light theme) or only rises (dark theme), so that it can
     * be read in grey, too. */
    stops: {
        light: ["#ffffff", "#d9ebf7", "#98c9e8", "#4a9bd0", "#1f6aae", "#123f80", "#0a1b45"],
        dark: ["#12161b", "#23345c", "#2b5d94", "#2b8fb0", "#42bd98", "#a8dc5b", "#fdf6b0"],
    },
    tables: {},

    /* 256 colours as R, G, B for the bytes of weights; a byte is 255·sqrt(weight). */
    table() {
        const theme = page.isDark() ? "dark" : "light";
        if (heat.tables[theme]) return heat.tables[theme];
        const stops = heat.stops[theme].map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));
        const table = new Uint8ClampedArray(256 * 3);
        for (let q = 0; q < 256; q++) {
            const x = q / 255 * (stops.length - 1), i = Math.min(Math.floor(x), stops.length - 2);
            for (let c = 0; c < 3; c++) table[3 * q + c] = stops[i][c] + (stops[i + 1][c] - stops[i][c]) * (x - i);
        }
        return (heat.tables[theme] = table);
    },

    /* Draws bytes (rows × columns) on a canvas, one pixel each; `top` and larger bytes have the last colour. */
    paint(canvas, bytes, rows, columns, top = 255) {
        const all = heat.table(), context = canvas.getContext("2d"), table = new Uint8ClampedArray(256 * 3);
        for (let q = 0; q < 256; q++) for (let c = 0, to = Math.min(255, Math.round(q * 255 / top)); c < 3; c++) table[3 * q + c] = all[3 * to + c];
        canvas.width = columns;
        canvas.height = rows;
        const image = context.createImageData(columns, rows);
        for (let i = 0; i < bytes.length; i++) {
            image.data[4 * i] = table[3 * bytes[i]];
            image.data[4 * i + 1] = table[3 * bytes[i] + 1];
            image.data[4 * i + 2] = table[3 * bytes[i] + 2];
            image.data[4 * i + 3] = 255;
        }
        context.putImageData(image, 0, 0);
    },

    /* Draws the ramp with its ends named: show(weight of the last colour, whether there are larger ones). */
    legend() {
        const canvas = page.el("canvas", { "aria-hidden": "true" }), end = page.el("span");
        const element = page.el("span", { class: "ramp", role: "img" }, "0", canvas, end);
        const draw = () => heat.paint(canvas, Uint8Array.from({ length: 256 }, (_, i) => i), 1, 256);
        page.redraws.push(draw);
        draw();
        const show = (most, more) => {
            end.textContent = page.number(most, 2) + (more ? " and more" : "");
            element.setAttribute("aria-label", `Colours from weight 0 to ${end.textContent}, by the square root`);
        };
        show(1, false);
        return { element, show };
    },

    /* The matrix of a head, {rows, columns, rowLabel(i), columnLabel(j), top(), fill(take(i, j, byte))}, in a number
     * of pixels. Moving calls `read`. */
    matrix(grid, width, height, read) {
        const labels = heat.labelRoom(grid, width), room = [Math.max(80, width - labels - 2), Math.max(80, height - labels)];
        const size = heat.cellSize(grid, room);
        const canvas = page.el("canvas", {
            tabindex: "0", role: "application", "aria-roledescription": "matrix of weights",
            "aria-label": `${grid.rows} rows that look at ${grid.columns} columns; the arrow keys move, Home and End go to the ends of a row, page up and down ten rows`,
        });
        const view = { grid, canvas, size, labels, row: 0, column: 0, read };
        canvas.style.width = `${labels + size * grid.columns}px`;
        canvas.style.height = `${labels + size * grid.rows}px`;
        canvas.addEventListener("pointermove", (event) => heat.point(view, event));
        canvas.addEventListener("click", (event) => heat.point(view, event));
        canvas.addEventListener("keydown", (event) => heat.key(view, event));
        canvas.addEventListener("focus", () => { heat.draw(view); read(view.row, view.column, true); });
        view.redraw = () => {
            heat.fillCells(view);
            heat.draw(view);
        };
        view.element = page.el("div", { class: "matrix" }, canvas);
        return view;
    },

    /* The whole matrix is visible at once: cells are as large as possible, and smaller than a pixel for long texts. */
    cellSize(grid, [width, height]) {
        const size = Math.min(28, width / grid.columns, Math.max(height, Math.min(width, grid.rows > 200 ? 600 : 340)) / grid.rows);
        return size >= 3 ? Math.floor(size) : size;
    },
    /* Returns how many tokens lie between two labels, so that labels do not touch. */
    labelStep(size) { return [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find((n) => n * size >= (n === 1 ? 9 : 13)) || 20000; },
    label(text, index, step) { return step > 1 ? `${index} ${text}` : text; },
    /* Returns the room for labels along both sides, in pixels. */
    labelRoom(grid, width) {
        let longest = 1;
        for (let i = 0; i < grid.rows; i++) longest = Math.max(longest, grid.rowLabel(i).length);
        for (let j = 0; j < grid.columns; j++) longest = Math.max(longest, grid.columnLabel(j).length);
        const most = Math.max(grid.rows, grid.columns), numbers = most * 9 > width ? String(most).length + 1 : 0;
        return Math.min(width < 500 ? 64 : 100, (Math.min(12, longest) + numbers) * 7 + 12);
    },

    /* The cells under the present colours and threshold, one pixel each; a pixel for several cells has their largest
     * weight. */
    fillCells(view) {
        const { grid, size } = view, share = Math.min(1, size * (window.devicePixelRatio || 1));
        const rows = Math.max(1, Math.round(grid.rows * share)), columns = Math.max(1, Math.round(grid.columns * share)), bytes = new Uint8Array(rows * columns);
        grid.fill((i, j, q) => {
            const at = Math.floor(i * rows / grid.rows) * columns + Math.floor(j * columns / grid.columns);
            if (q > bytes[at]) bytes[at] = q;
        });
        view.cells = document.createElement("canvas");
        heat.paint(view.cells, bytes, rows, columns, grid.top());
    },
    draw(view) {
        const { grid, size, labels, cells } = view;
        const context = page.context(view.canvas, labels + size * grid.columns, labels + size * grid.rows);
        context.imageSmoothingEnabled = false;
        context.drawImage(cells, labels, labels, size * grid.columns, size * grid.rows);
        context.strokeStyle = page.colour("--rule");
        context.strokeRect(labels - .5, labels - .5, size * grid.columns, size * grid.rows);
        heat.drawLabels(view, context);
        if (document.activeElement === view.canvas || view.touched) heat.drawMark(view, context);
    },
    /* Writes labels along both sides; for long texts every few tokens, with their numbers. */
    drawLabels(view, context) {
        const { grid, size, labels } = view, step = heat.labelStep(size);
        context.fillStyle = page.colour("--ink");
        context.font = `${step > 1 ? 11 : Math.min(12, size + 1)}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace`;
        /* Characters stand upright; words run upwards. */
        view.upright = step === 1 && [...Array(grid.columns).keys()].every((j) => [...grid.columnLabel(j)].length === 1);
        view.canvas.labels = { step, rows: 0, columns: 0 }; /* for the tests of pages */
        for (let i = 0; i < grid.rows; i += step, view.canvas.labels.rows++) heat.rowLabel(view, context, i, heat.label(grid.rowLabel(i), i, step));
        for (let j = 0; j < grid.columns; j += step, view.canvas.labels.columns++) heat.columnLabel(view, context, j, heat.label(grid.columnLabel(j), j, step));
    },
    rowLabel(view, context, i, text) {
        context.textBaseline = "middle";
        context.textAlign = "right";
        context.fillText(heat.cut(context, text, view.labels - 8), view.labels - 6, view.labels + (i + .5) * view.size);
    },
    columnLabel(view, context, j, text) {
        context.textBaseline = "middle";
        context.textAlign = view.upright ? "center" : "left";
        context.save();
        context.translate(view.labels + (j + .5) * view.size, view.labels - (view.upright ? 8 : 6));
        if (!view.upright) context.rotate(-Math.PI / 2);
        context.fillText(heat.cut(context, text, view.labels - 8), 0, 0);
        context.restore();
    },
    cut(context, label, width) {
        const width1 = context.measureText("m").width, most = Math.max(2, Math.floor(width / width1));
        return label.length > most ? label.slice(0, most - 1) + "…" : label;
    },
    drawMark(view, context) {
        const { size, labels, grid } = view;
        context.strokeStyle = page.colour("--focus");
        context.lineWidth = 2;
        context.strokeRect(labels + view.column * size - 1, labels + view.row * size - 1, size + 2, size + 2);
        if (size >= 9) return;
        /* cells too small to see: draws a cross, and the labels of its ends over the others */
        context.globalAlpha = .5;
        context.lineWidth = 1;
        context.strokeRect(labels + view.column * size - .5, labels, size + 1, size * grid.rows);
        context.strokeRect(labels, labels + view.row * size - .5, size * grid.columns, size + 1);
        context.globalAlpha = 1;
        context.fillStyle = page.colour("--paper");
        context.fillRect(0, labels + (view.row + .5) * size - 8, labels - 1, 16);
        context.fillRect(labels + (view.column + .5) * size - 8, 0, 16, labels - 1);
        context.fillStyle = page.colour("--focus");
        heat.rowLabel(view, context, view.row, heat.label(grid.rowLabel(view.row), view.row, 2));
        heat.columnLabel(view, context, view.column, heat.label(grid.columnLabel(view.column), view.column, 2));
    },

    move(view, row, column, spoken) {
        view.row = Math.max(0, Math.min(view.grid.rows - 1, row));
        view.column = Math.max(0, Math.min(view.grid.columns - 1, column));
        view.touched = true;
        clearTimeout(view.waiting); /* a large matrix is drawn at most once a frame */
        view.waiting = setTimeout(() => heat.draw(view), 0);
        view.read(view.row, view.column, spoken);
    },
    point(view, event) {
        const box = view.canvas.getBoundingClientRect();
        const column = Math.floor((event.clientX - box.left - view.labels) / view.size);
        const row = Math.floor((event.clientY - box.top - view.labels) / view.size);
        if (row < 0 || column < 0 || row >= view.grid.rows || column >= view.grid.columns) return;
        if (row !== view.row || column !== view.column || !view.touched) heat.move(view, row, column, false);
    },
    key(view, event) {
        const { row, column, grid } = view;
        const to = {
            ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
            Home: [row, 0], End: [row, grid.columns - 1], PageUp: [row - 10, column], PageDown: [row + 10, column],
        }[event.key];
        if (!to) return;
        event.preventDefault();
        heat.move(view, to[0], to[1], true);
    },
};
