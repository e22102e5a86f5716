"""
Image and audio CAPTCHAs, which need no script, made with the package `captcha`.

A CAPTCHA is made ahead of time and used once. Its answer leaves the server only as a keyed digest inside the encrypted
challenge.
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
"""Letters and digits that cannot be confused: no B and 8, I and 1, O, Q and 0, S and 5, G and 6, Z and 2."""
DIGITS = "0123456789"
_LENGTH = 6
_WIDTH, _HEIGHT = 280, 90
_COLOURS = 16
_MAX_ANSWER_LENGTH = 100
_DIGEST_BYTES = 16


class Captcha(NamedTuple):
    answer: str
    media: str
    content: bytes


def digest(answer: str, secret: bytes) -> bytes:
    """Return the keyed digest of a normalised answer. Case, spaces, hyphens and full-width forms do not matter."""
    text = unicodedata.normalize("NFKC", answer[:_MAX_ANSWER_LENGTH]).upper()
    letters = "".join(c for c in text if c.isalnum())
    return blake2b(letters.encode("utf-8", "replace"), key=secret, digest_size=_DIGEST_BYTES).digest()


def make_image() -> Captcha:
    answer = "".join(secrets.choice(LETTERS) for _ in range(_LENGTH))
    # Dark on light: the package's own colours include pale yellow on white, which few people can read.
    ink = (40 + secrets.randbelow(60), 40 + secrets.randbelow(60), 40 + secrets.randbelow(60), 255)
    paper = (255 - secrets.randbelow(16), 255 - secrets.randbelow(16), 255 - secrets.randbelow(16))
    image = _image_maker().generate_image(answer, bg_color=paper, fg_color=ink)
    out = io.BytesIO()
    # Few colours are as readable, with a third of the bytes.
    image.quantize(_COLOURS).save(out, "png")
    return Captcha(answer, "image/png", out.getvalue())


def make_audio() -> Captcha:
    answer = "".join(secrets.choice(DIGITS) for _ in range(_LENGTH))
    return Captcha(answer, "audio/wav", bytes(_audio_maker().generate(answer)))


@lru_cache(maxsize=1)
def _image_maker() -> ImageCaptcha:
    # Imported here, so that a Hedgerow without CAPTCHAs starts without Pillow.
    from captcha.image import ImageCaptcha

    maker = ImageCaptcha(_WIDTH, _HEIGHT, font_sizes=(50, 56, 62))
    # The opacity of a letter follows the brightness of its ink. The package's table would make dark letters faint.
    maker.lookup_table = [min(255, 7 * brightness) for brightness in range(256)]
    return maker


@lru_cache(maxsize=1)
def _audio_maker() -> AudioCaptcha:
    from captcha import audio

    # Maps a random byte to a noise sample: four levels around silence, as in the package.
    levels = bytes(byte % 4 + 126 for byte in range(256))

    class Speaker(audio.AudioCaptcha):
        """Makes noise faster than the package, which takes half a second, and with shorter pauses."""

        _murmur_samples: tuple[bytes, ...] = ()

        def create_background_noise(self, length: int, chars: str) -> bytearray:  # noqa: ARG002 - signature of the package
            if not self._murmur_samples:
                self._murmur_samples = tuple(bytes(self._noise_pick()) for _ in range(60))
            noise = bytearray(os.urandom(length).translate(levels))
            position = 0
            while position < length:
                murmur = secrets.choice(self._murmur_samples)[: length - position]
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
