"""A small Gradio application with a button."""

import os

import gradio as gr

with gr.Blocks(title="Gradio", analytics_enabled=False) as demo:
    gr.Markdown("# Home\n[Elsewhere](/?from=link)")
    name = gr.Textbox(label="Name")
    out = gr.Textbox(label="Greeting")
    gr.Button("Greet").click(lambda text: f"Hello, {text}", name, out)

demo.launch(server_name="127.0.0.1", server_port=int(os.environ["PORT"]), quiet=True, share=False)
