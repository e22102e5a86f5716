"""
The widget of altcha 3.2.2, as its npm package has it (`dist/external`, `dist/workers`), under the MIT licence.

`dist/external` is the form without styles and workers in it, which a strict policy needs.
"""
