"""The hash function of js-sha256 1.0.0, as its npm package has it (`build/sha256.min.js`), under the MIT licence."""
