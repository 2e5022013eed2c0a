"""Texts that tokenizers are likely to get wrong, without end."""

SCRIPTS = [
    "The quick brown fox's dog won't jump; they'll say \"hi\" 1234567 times, it's I'VE.",
    "Größe Übung naïve café résumé Ångström; İstanbul, ﬁne Ⅷ ½ e\u0301a\u030a ǅ ΐ.",
    "Съешь ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "我能吞下玻璃而不伤身体。こんにちは、世界！カタカナ ｶﾞﾊﾟ 한국어 안녕 \u1112\u1161\u11ab \uc790\u11a7\u11c2.",
    "أنا قادر على أكل الزجاج ١٢٣ و هذا لا يؤلمني ﷺ", "אני יכול לאכול זכוכית שָׁלוֹם", "मैं काँच खा सकता हूँ १२३ क्षि",
    "আমি কাঁচ খেতে পারি", "நான் கண்ணாடி சாப்பிடுவேன்", "నేను గాజు తినగలను", "ฉันกินกระจกได้ น้ำ", "ကျွန်တော် ကျွန်မ",
    "Կրնամ ապակի ուտել և", "მინას ვჭამ", "ᠪᠢ ᠰᠢᠯᠢ", "እኔ መስታወት", "ខ្ញុំអាច", "ᏣᎳᎩ", "𐌼𐌰𐌲", "ང་ཤེལ་སྒོ", "ලංකා", "ਪੰਜਾਬੀ", "ગુજરાતી",
    "🦙 👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 ☃️ 1️⃣ 👍🏽 🇨🇭🇯🇵", "x̧̱̄ Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢", "𝒜𝓁𝑔𝑒𝒷𝓇𝒶 ⁵₆ ①② ㎏ ℌ ﬃ",
    "def f(x):\n    return {'a': x[0] ** 2, \"b\": -1e-5}  # ok\n\n\n\tif x != y: pass\r\n",
    "for (int i = 0; i < n; ++i) {\r\n\t\tsum += a[i]; /* ... */\r\n\t}\r\n\r\n",
    "a  b   c    d\t\te \n f \r\n\r\n g\u00a0h\u3000i\u2028j\u200bk\ufeffl\u180em\u0085n\x1co\x0bp",
    "http://example.org/a_b?c=d&e=%20#f 3.14159 2024-01-31 $1,234.56 C++ <tag/> ~~~ ___ ...!?",
    "'s'S'ſ 'lL don’t we’re word words sword 'T''re 'vE'M'D'lL I'd", "\x00\x01\x02\x7f\x80\x9f\u0600\u2062\ue000\uffff",
    "Tiếng Việt ở đâu", "Kvædi ð þ Ő ű Œuvre ẞ ß ŉ ǰ", "ⰀⰁ ⲀⲂ ꙮ Ѡ ⴰⵎⴰⵣⵉⵖ ꆈꌠꉙ ᓀᐦᐃᔭᐍᐏᐣ ᚠᚢᚦ ߒߞߏ",
]
RANGES = [(0x20, 0x7f), (0, 0x20), (0x80, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x800), (0x900, 0xe00), (0xe00, 0x1100),
          (0x1100, 0x1200), (0x1d00, 0x2000), (0x2000, 0x2100), (0x2100, 0x2c00), (0x3000, 0x3400), (0x4e00, 0x9fff),
          (0xac00, 0xd7a4), (0xf900, 0x10000), (0x10000, 0x11000), (0x1d400, 0x1d800), (0x1f000, 0x1fb00), (0xe0000, 0xe0200)]


def assigned(first, last):
    """Characters that every Unicode version at hand agrees on, as numbers."""
    import unicodedata
    known = unicodedata.ucd_3_2_0 if last > 0x110000 else unicodedata
    return [c for c in range(first, last) if not 0xd800 <= c < 0xe000 and known.category(chr(c)) != "Cn"]


CHARACTERS = [assigned(*one) for one in RANGES]


def random_text(r, added=()):
    """Any mixture; `added` are tokens to be found in it now and then."""
    out = []
    for _ in range(r.randrange(1, 14)):
        kind = r.randrange(12)
        if kind == 0:
            out.append(r.choice([" ", " ", "\n", "\t", "\r\n", "\u00a0", "\u3000"]) * r.choice([1, 2, 3, 4, 5, 8, 17, 40]))
        elif kind == 1 and added:
            out.append(r.choice(added))
            if r.randrange(3) == 0:
                out[-1] = out[-1][:r.randrange(len(out[-1]) + 1)] + r.choice(["", " ", r.choice(added)])
        elif kind == 2:
            out.append(str(r.randrange(10 ** r.randrange(1, 12))))
        elif kind == 3:
            out.append("".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(r.randrange(1, 6))))
        elif kind in (4, 5):
            line = r.choice(SCRIPTS)
            at = r.randrange(len(line) + 1)
            out.append(line[at:at + r.randrange(24)])
        elif kind == 6:
            characters = r.choice(CHARACTERS)
            out.append("".join(chr(r.choice(characters)) for _ in range(r.randrange(1, 6))))
        elif kind == 7:
            out.append("".join(chr(r.choice(r.choice(CHARACTERS))) for _ in range(r.randrange(1, 4))))
        elif kind == 8:
            out.append(r.choice(["'s", "'T", "'re", "'Ve", "'m", "'ll", "'D", "’s", "ſ", "K", "\u0345"]))
        else:
            out.append("".join(r.choice("etaoinshrdluETAOIN") for _ in range(r.randrange(1, 9))))
        if r.randrange(3) == 0:
            out.append(" ")
    return "".join(out)


def random_bytes(r, added=()):
    """Text with some bytes that are not UTF-8."""
    data = bytearray(random_text(r, added).encode())
    for _ in range(r.randrange(1, 4)):
        at = r.randrange(len(data) + 1)
        if r.randrange(2):
            data[at:at + r.randrange(3)] = b""
        else:
            data[at:at] = bytes(r.randrange(0x80, 0x100) for _ in range(r.randrange(1, 3)))
    return bytes(data)
