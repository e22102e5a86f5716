module.exports = { siteMetadata: { title: "Gatsby" } };
