"""Small tokenizers of the kinds that models have, made without a hub; most pad with the end of text, as GPT-2 does."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.models.tiny_models import tiny
from workbench.tasks.prompt_sets import PROMPT_SETS
from workbench.tasks.prompt_sets.base import SLOT, TextSet
from workbench.tasks.prompt_sets.greater_than import BY_DIGIT

PROSE = "The naïve café là, тихий мир 中文 😀 has a door and a mat.\n\tThe cat sat on the mat, été and à la carte.\n"
"""Accents, Cyrillic, CJK, an emoji, a tab, new lines."""
END = "<|end|>"


def of_words(**special: str) -> PreTrainedTokenizerFast:
    """38 words with spaces between, `w2` to `w39`, of which `w2` stands for every other."""
    made = Tokenizer(models.WordLevel({"[PAD]": 0, "<s>": 1} | {f"w{i}": i for i in range(2, 40)}, unk_token="w2"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, **{"pad_token": "[PAD]"} | special)


def byte_level(**special: str) -> PreTrainedTokenizerFast:
    """Byte-level BPE, as of GPT-2: `Ġ` is a space, and letters with accents are two bytes."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["The cat sat on the mat. The café is là."] * 9,
        trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=[END], show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, **{"eos_token": END, "pad_token": END} | special)


def byte_fallback(**special: str) -> PreTrainedTokenizerFast:
    """SentencePiece BPE as of Llama: `▁` is a space, `<0xC3>` a byte of what has no piece, `<s>` before every text."""
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *"▁Thecasonmt.é",
        "▁c",
        "▁ca",
        "▁cat",
    ]
    merges = [("▁", "c"), ("▁c", "a"), ("▁ca", "t")]
    made = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    strip = decoders.Strip(" ", 1, 0)
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    given = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **given | special)


def unigram(**special: str) -> PreTrainedTokenizerFast:
    """SentencePiece Unigram as of XGLM, which puts its end after every text."""
    pieces = ["</s>", "<unk>", "▁", *"Thecasonmtï.,", "▁The", "▁cat", "▁na", "ïve", "▁café", "▁тихий", "▁中", "文"]
    made = Tokenizer(models.Unigram([(piece, -9.0 / len(piece)) for piece in pieces], unk_id=1))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=made, **{"eos_token": "</s>", "unk_token": "<unk>"} | special)


def word_piece(**special: str) -> PreTrainedTokenizerFast:
    """WordPiece as of BERT: `##ing` goes on with a word."""
    pieces = ["[UNK]", "[CLS]", "[SEP]", "The", "cat", "sat", "##s", "na", "##ï", "##ve", "café", ".", "中", "мир"]
    made = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    frame = [("[CLS]", 1), ("[SEP]", 2)]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=frame)
    given = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **given | special)


TOKENIZERS: dict[str, Callable[..., PreTrainedTokenizerFast]] = {
    "byte level": byte_level,
    "byte fallback": byte_fallback,
    "unigram": unigram,
    "word piece": word_piece,
}


def save(folder: Path, kind: str, family: str = "llama", **special: Any) -> Path:
    """A tiny model with random weights, and such a tokenizer, as `save_pretrained` writes them."""
    made = TOKENIZERS[kind](**special)
    tiny(family, vocab_size=len(made), pad_token_id=None, bos_token_id=None).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def of_prompts(kind: str = "bpe", without: str = "") -> PreTrainedTokenizerFast:
    """A tokenizer to which every prompt set fits, each of its words one token.

    Args:
        kind: `bpe`, with spaces in front of words and years in halves, as of GPT-2; or `sentencepiece`, with `▁`, one
            token for each digit, and `<s>` before every text, as of Llama.
        without: a word that it does not have.
    """
    pieces = r" ?[A-Z][a-z]+| ?[a-z]+|[A-Z]| ?\d\d|\d| ?[^\w\s]"
    random, texts = torch.Generator().manual_seed(0), []
    for made in (*PROMPT_SETS.values(), BY_DIGIT):
        for _ in range(200 if isinstance(made, TextSet) else 0):
            drawn = made.draw(made.words, random)
            texts.append(SLOT.sub(lambda slot, drawn=drawn: slot[2] or drawn.clean[slot[1]], drawn.template))
        texts += [form for group in getattr(made, "words", {}).values() for entry in group for form in entry]
    words = sorted({word for text in texts for word in re.findall(pieces, text)} - {f" {without}"})
    letters = [*string.ascii_letters, *string.digits]
    if kind == "bpe":
        vocabulary = [END, *dict.fromkeys([*words, *letters, *(f" {letter}" for letter in letters), " "])]
        made_of = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=END))
        made_of.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "isolated")
        made_of.decoder = decoders.Fuse()
        return PreTrainedTokenizerFast(tokenizer_object=made_of, eos_token=END, pad_token=END, unk_token=END)
    words = [word.replace(" ", "▁") for word in words if not any(sign.isdigit() for sign in word)]
    scored = [(word, -1.0) for word in dict.fromkeys([*words, "▁"])] + [(letter, -9.0) for letter in letters]
    made_of = Tokenizer(models.Unigram([("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *dict(scored).items()], unk_id=0))
    made_of.pre_tokenizer, made_of.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made_of.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made_of, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    )
