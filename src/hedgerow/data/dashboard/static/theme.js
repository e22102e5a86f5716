// Before the page is shown, so that it does not flash in the other theme.
"use strict";
try {
  const theme = localStorage.getItem("hedgerow-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* No storage: the system's theme. */ }
