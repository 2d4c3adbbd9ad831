/* heat.js: weights as colours, and as a matrix that can be read with the pointer or the arrow keys. */
"use strict";
const heat = {
    /* Stops of a ramp whose lightness only falls (light theme) or only rises (dark theme), so that it reads in grey, too. */
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

    /* Draws bytes (rows × columns) on a canvas, a pixel each. */
    paint(canvas, bytes, rows, columns) {
        const table = heat.table(), context = canvas.getContext("2d");
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

    /* The ramp with its ends named. */
    legend() {
        const canvas = page.el("canvas", { "aria-hidden": "true" });
        const draw = () => heat.paint(canvas, Uint8Array.from({ length: 256 }, (_, i) => i), 1, 256);
        page.redraws.push(draw);
        draw();
        return page.el("span", { class: "ramp", role: "img", "aria-label": "Colours from weight 0 to weight 1, by their square root" }, "0", canvas, "1");
    },

    /* The matrix of a head: {rows, columns, byte(i, j), rowLabel(i), columnLabel(j), describe(i, j)}. Moving tells `read`. */
    matrix(grid, width, read) {
        const size = heat.cellSize(grid, width);
        const labels = size >= 9 ? Math.min(96, Math.max(...heat.lengths(grid)) * 7 + 12) : 0;
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
        view.redraw();
        view.element = page.el("div", { class: "matrix" }, canvas);
        return view;
    },

    cellSize(grid, width) {
        const room = Math.max(100, width - 110) / Math.max(grid.rows, grid.columns);
        return room >= 28 ? 28 : room >= 1 ? Math.floor(room) : 1;
    },
    lengths(grid) {
        const lengths = [1];
        for (let i = 0; i < grid.rows; i++) lengths.push(grid.rowLabel(i).length);
        for (let j = 0; j < grid.columns; j++) lengths.push(grid.columnLabel(j).length);
        return lengths;
    },

    /* The cells, a pixel each, as colours and threshold are now. */
    fillCells(view) {
        const { grid } = view, bytes = new Uint8Array(grid.rows * grid.columns);
        grid.fill(bytes);
        view.cells = document.createElement("canvas");
        heat.paint(view.cells, bytes, grid.rows, grid.columns);
    },
    draw(view) {
        const { grid, size, labels, cells } = view;
        const context = page.context(view.canvas, labels + size * grid.columns, labels + size * grid.rows);
        context.imageSmoothingEnabled = false;
        context.drawImage(cells, labels, labels, size * grid.columns, size * grid.rows);
        if (labels) heat.drawLabels(view, context);
        if (document.activeElement === view.canvas || view.touched) heat.drawMark(view, context);
    },
    drawLabels(view, context) {
        const { grid, size, labels } = view;
        context.fillStyle = page.colour("--ink");
        context.font = `${Math.min(12, size + 1)}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace`;
        context.textBaseline = "middle";
        context.textAlign = "right";
        for (let i = 0; i < grid.rows; i++) context.fillText(heat.cut(grid.rowLabel(i)), labels - 6, labels + (i + .5) * size);
        /* Characters stand upright, words upwards. */
        const upright = [...Array(grid.columns).keys()].every((j) => [...grid.columnLabel(j)].length === 1);
        context.textAlign = upright ? "center" : "left";
        for (let j = 0; j < grid.columns; j++) {
            context.save();
            context.translate(labels + (j + .5) * size, labels - (upright ? 8 : 6));
            if (!upright) context.rotate(-Math.PI / 2);
            context.fillText(heat.cut(grid.columnLabel(j)), 0, 0);
            context.restore();
        }
    },
    cut(label) { return label.length > 12 ? label.slice(0, 11) + "…" : label; },
    drawMark(view, context) {
        const { size, labels } = view;
        context.strokeStyle = page.colour("--focus");
        context.lineWidth = 2;
        context.strokeRect(labels + view.column * size - 1, labels + view.row * size - 1, size + 2, size + 2);
        if (size >= 6) return;
        context.globalAlpha = .5; /* cells too small to see: a cross */
        context.lineWidth = 1;
        context.strokeRect(labels + view.column * size - .5, labels, size + 1, size * view.grid.rows);
        context.strokeRect(labels, labels + view.row * size - .5, size * view.grid.columns, size + 1);
    },

    move(view, row, column, spoken) {
        view.row = Math.max(0, Math.min(view.grid.rows - 1, row));
        view.column = Math.max(0, Math.min(view.grid.columns - 1, column));
        view.touched = true;
        clearTimeout(view.waiting); /* a large matrix is drawn again at most once a frame */
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
