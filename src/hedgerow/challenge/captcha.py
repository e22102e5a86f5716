"""
Image and audio CAPTCHA, with `captcha`: something to read or to hear, which needs no script.

A puzzle is made ahead of time (`pool`), used once, and its answer never leaves us but as a keyed digest inside the
sealed challenge.
"""

from __future__ import annotations

import io
import os
import secrets
import unicodedata
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from captcha.audio import AudioCaptcha
    from captcha.image import ImageCaptcha

LETTERS = "ACDEFHJKLMNPRTUVWXY3479"
"""Without those that look like another: B and 8, I and 1, O, Q and 0, S and 5, G and 6, Z and 2."""
DIGITS = "0123456789"
_LENGTH = 6
_WIDTH, _HEIGHT = 280, 90
_COLOURS = 16
_LONGEST_ANSWER = 100
_DIGEST_BYTES = 16


class Captcha(NamedTuple):
    """What is shown or played, its media type, and what it says."""

    answer: str
    media: str
    content: bytes


def digest(answer: str, secret: bytes) -> bytes:
    """
    The keyed digest of an answer in its normal form.

    Case, spaces and hyphens do not matter, nor whether an input method wrote the letters in full width.
    """
    normal = unicodedata.normalize("NFKC", answer[:_LONGEST_ANSWER]).upper()
    kept = "".join(c for c in normal if c.isalnum())
    return blake2b(kept.encode("utf-8", "replace"), key=secret, digest_size=_DIGEST_BYTES).digest()


def draw() -> Captcha:
    """An image."""
    answer = "".join(secrets.choice(LETTERS) for _ in range(_LENGTH))
    # Dark on light: the colours of the package go up to pale yellow on white, which few people can read.
    ink = (40 + secrets.randbelow(60), 40 + secrets.randbelow(60), 40 + secrets.randbelow(60), 255)
    paper = (255 - secrets.randbelow(16), 255 - secrets.randbelow(16), 255 - secrets.randbelow(16))
    image = _painter().generate_image(answer, bg_color=paper, fg_color=ink)
    out = io.BytesIO()
    # A few colours are as good to read, and a third of the bytes.
    image.quantize(_COLOURS).save(out, "png")
    return Captcha(answer, "image/png", out.getvalue())


def speak() -> Captcha:
    """A recording of digits, among noise."""
    answer = "".join(secrets.choice(DIGITS) for _ in range(_LENGTH))
    return Captcha(answer, "audio/wav", bytes(_speaker().generate(answer)))


@lru_cache(maxsize=1)
def _painter() -> ImageCaptcha:
    # Imported where puzzles are made: a Hedgerow that makes none starts without Pillow.
    from captcha.image import ImageCaptcha

    painter = ImageCaptcha(_WIDTH, _HEIGHT, font_sizes=(50, 56, 62))
    # How opaque a letter is goes by how bright its ink is; the package's table would make dark ones faint.
    painter.lookup_table = [min(255, 7 * brightness) for brightness in range(256)]
    return painter


@lru_cache(maxsize=1)
def _speaker() -> AudioCaptcha:
    from captcha import audio

    # How a sample of noise comes out of a random byte: four levels around silence, as the package has it.
    levels = bytes(byte % 4 + 126 for byte in range(256))

    class Speaker(audio.AudioCaptcha):
        """
        The package's, but quick: it makes noise sample by sample, and takes half a second of pure Python.

        The pauses are shorter, too, or nobody would have heard the end in time.
        """

        _murmurs: tuple[bytes, ...] = ()

        def create_background_noise(self, length: int, chars: str) -> bytearray:  # noqa: ARG002 - the package's shape
            if not self._murmurs:
                self._murmurs = tuple(bytes(self._noise_pick()) for _ in range(60))
            noise = bytearray(os.urandom(length).translate(levels))
            position = 0
            while position < length:
                murmur = secrets.choice(self._murmurs)[: length - position]
                noise[position : position + len(murmur)] = murmur
                position += len(murmur) + secrets.randbelow(audio.WAVE_SAMPLE_RATE // 10)
            return noise

        def create_wave_body(self, chars: str) -> bytearray:
            rate = audio.WAVE_SAMPLE_RATE
            voices = [self._twist_pick(c) for c in chars]
            pauses = [rate // 2 + secrets.randbelow(rate // 2) for _ in (*voices, None)]
            noise = self.create_background_noise(sum(map(len, voices)) + sum(pauses), chars)
            position = pauses[0]
            for voice, pause in zip(voices, pauses[1:], strict=True):
                end = position + len(voice)
                noise[position:end] = audio.mix_wave(voice, noise[position:end])
                position = end + pause
            return audio.BEEP + audio.SILENCE + noise + audio.END_BEEP

    return Speaker()
