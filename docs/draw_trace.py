#!/usr/bin/env python3
"""Draws one step of a trace that `megatrain train --trace FILE` wrote, as an SVG on standard output.

    draw_trace.py FILE [STEP]      STEP counts from 1; the second one by default
"""
import html
import json
import sys

COLOURS = {"weights": "#4878a8", "activations": "#88b8d8", "forward": "#58a068", "head": "#98c870",
           "recompute": "#d8b848", "backward": "#d08040", "gradients": "#a868a8", "update": "#b85060",
           "embedding": "#808080", "wait": "#d8d8d8"}
WIDTH, LEFT, ROW, GAP, TOP = 1200, 130, 34, 10, 30


def read(path):
    """The spans with a colour, and the rows' names by number."""
    with open(path) as file:
        events = json.load(file)
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return [event for event in events if event.get("cat") in COLOURS], rows


def step_ends(spans):
    """A step's last copy is the embeddings' gradient; where nothing is copied (device: cpu), its last backward counts."""
    ends = sorted(span["ts"] + span["dur"] for span in spans if span["name"] == "gradient of the embeddings")
    if ends:
        return ends
    last = None
    for span in sorted(spans, key=lambda span: span["ts"]):
        if span["cat"] == "backward":
            last = span["ts"] + span["dur"]
        elif span["cat"] == "forward" and last is not None:
            ends.append(last)
            last = None
    return ends if last is None else [*ends, last]


def window(spans, step):
    """From the end of the step before to the end of this one."""
    ends = step_ends(spans)
    if not 1 <= step <= len(ends):
        sys.exit(f"the trace has {len(ends)} steps")
    begin = ends[step - 2] if step > 1 else min(span["ts"] for span in spans)
    return begin, ends[step - 1]


def label(span, width):
    """As much of its name as there is room for: all of it, the layer's number, or nothing."""
    name = span["name"]
    number = name.rsplit(" ", 1)[1] if " layer " in name else ""
    for text in (name, number):
        if text and 6.2 * len(text) + 4 < width:
            return text
    return ""


def draw(spans, rows, begin, end):
    scale = (WIDTH - LEFT - 10) / (end - begin)
    numbers = sorted(rows)
    height = TOP + len(numbers) * (ROW + GAP) + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
           f'font-size="12"><rect width="{WIDTH}" height="{height}" fill="white"/>']
    for place, number in enumerate(numbers):
        y = TOP + place * (ROW + GAP)
        out.append(f'<text x="10" y="{y + ROW / 2 + 4}">{html.escape(rows[number])}</text>'
                   f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 10}" height="{ROW}" fill="#f4f4f4"/>')
        for span in spans:
            first, last = max(span["ts"], begin), min(span["ts"] + span["dur"], end)
            if span["tid"] != number or last <= first:
                continue
            x, width = LEFT + (first - begin) * scale, max((last - first) * scale, 0.4)
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{COLOURS[span["cat"]]}" '
                       f'stroke="white" stroke-width="0.4"><title>{html.escape(span["name"])}, '
                       f'{span["dur"] / 1000:.2f} ms</title></rect>')
            text = label(span, width)
            if text:
                out.append(f'<text x="{x + width / 2:.1f}" y="{y + ROW / 2 + 4}" text-anchor="middle" fill="white" '
                           f'font-size="10">{html.escape(text)}</text>')
    y = TOP + len(numbers) * (ROW + GAP) + 10
    for place, (name, colour) in enumerate(COLOURS.items()):
        x = LEFT + place * 105
        out.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/><text x="{x + 17}" y="{y + 11}">'
                   f'{name}</text>')
    out.append(f'<text x="{WIDTH - 10}" y="18" text-anchor="end">one step, {(end - begin) / 1000:.0f} ms</text></svg>')
    return "\n".join(out)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    spans, rows = read(sys.argv[1])
    print(draw(spans, rows, *window(spans, int(sys.argv[2]) if len(sys.argv) == 3 else 2)))


main()
