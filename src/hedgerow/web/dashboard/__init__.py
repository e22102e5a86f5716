"""
The dashboard for operators and the API below `/api/v1`, on the admin listener.

Owns pages, tables, templates and the OpenAPI document. Never decides on visits, and checks no logins: `web.admin` does.
Called by `web.admin.app`. Tests: `tests/web/dashboard/`.

To add a page, write one module in `pages/` and one template in `data/dashboard/templates/`:

1. A `msgspec.Struct` for the parameters, one for the result, and a function `query(context, parameters)` that returns
   the result. It runs in a thread. What is wrong with a request is raised as `Problem`.
2. A template `NAME.html` that extends `base.html`. It sees `result`, `parameters`, `user` and `page`.
3. Changes are functions with a `msgspec.Struct` of their own, named in `actions`. A form posts them to
   `/dashboard/NAME/ACTION`, a program to `/api/v1/NAME/ACTION`. Viewers cannot, and each is in the audit log.
4. `PAGE = Page(...)` in the module, and its name in `pages/__init__.py`.

What only programs read is in `resources/`: the same without a template, at `/api/v1/NAME`.

The route of the page, the route of the API, navigation and OpenAPI follow from it. A page whose result is a
`TablePage` sorts, filters, pages and exports: use `tabulate` for rows in memory, and the macro `table` in the template.
"""
