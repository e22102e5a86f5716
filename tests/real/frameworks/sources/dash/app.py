"""A small Dash application with two pages and a callback."""

import os

from dash import Dash, Input, Output, callback, dcc, html

app = Dash(__name__, title="Dash", update_title=None, suppress_callback_exceptions=True)
app.layout = html.Div(
    [
        dcc.Location(id="url"),
        html.Nav([dcc.Link("Home", href="/"), " ", dcc.Link("About", href="/about")]),
        html.Main(id="main"),
    ]
)


@callback(Output("main", "children"), Input("url", "pathname"), Input("url", "search"))
def show(path, search):
    if path == "/about":
        return [html.H1("About"), html.Ul([html.Li(html.A(f"Item {n}", href=f"/item/{n}")) for n in (1, 2, 3)])]
    if path.startswith("/item/"):
        return [html.H1(f"Item {path.rpartition('/')[2]}"), html.P(f"At {path}{search}")]
    return [html.H1("Home"), html.Button("Count", id="button", n_clicks=0), html.Output("0", id="count")]


@callback(Output("count", "children"), Input("button", "n_clicks"))
def count(clicks):
    return str(clicks)


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ["PORT"]))
