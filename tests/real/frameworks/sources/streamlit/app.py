"""A small Streamlit application with a button and a link."""

import streamlit as st

st.title("Home")
st.markdown("[Elsewhere](/?from=link)")
name = st.text_input("Name")
if st.button("Greet"):
    st.write(f"Hello, {name or 'nobody'}, from {dict(st.query_params)}")
