"""Print and Printf against texts recorded from real Go: fmt of Go 1.27.3 on the values of support/specimens.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracle import Oracle
from support.specimens import (
    NIL_ARGUMENTS,
    NIL_BYTES,
    NIL_KINDS,
    NIL_MAP,
    NIL_NOTE,
    NIL_NOTES,
    NIL_RECORD,
    NIL_STRINGS,
    NOTE,
    NOTE_POINTER,
    NOTES,
    NUMBERED,
    RECORD,
    RECORD_POINTER,
    anys,
    arguments,
    byte,
    data,
    image,
    images,
    int32,
    ints,
    kinds,
    mapping,
    strings,
    uint,
)
from support.values import go_value

from templatefix.gotemplate.formatting import AddressPrinted, format_value, sprint, sprintf, sprintln
from templatefix.gotemplate.values import INT, INVALID, GoType, Map, Slice, Struct, TracedStr, to_bytes

inf = float("inf")
nan = float("nan")

# Format, operands, what Sprintf returns: the directives themselves.
DIRECTIVES = [
    ("plain", (), "plain"),
    ("100%%", (), "100%"),
    ("%s and %s", ("a", "b"), "a and b"),
    ("%d", ("a",), "%!d(string=a)"),
    ("%d", (None,), "%!d(<nil>)"),
    ("%s", (None,), "%!s(<nil>)"),
    ("%v|%5v|%-6v|%+v", (None,) * 4, "<nil>|<nil>|<nil> |<nil>"),
    ("%d", (), "%!d(MISSING)"),
    ("%d %d", (1,), "1 %!d(MISSING)"),
    ("a", ("b",), "a%!(EXTRA string=b)"),
    ("%d", (1, "b", None, 2.5), "1%!(EXTRA string=b, <nil>, float64=2.5)"),
    ("%", (1,), "%!(NOVERB)%!(EXTRA int=1)"),
    ("%!", (1,), "%!!(int=1)"),
    ("%z", (1,), "%!z(int=1)"),
    ("%-", (), "%!(NOVERB)"),
    ("%5", (1,), "%!(NOVERB)%!(EXTRA int=1)"),
    ("%.", (1,), "%!.(int=1)"),
    ("%5.", (1,), "%!.(int=    1)"),
    ("%é", ("a",), "%!é(string=a)"),
    ("%\udcff", ("a",), "%!�(string=a)"),
    ("%[2]d %[1]d", (1, 2), "2 1"),
    ("%[3]d", (1,), "%!d(BADINDEX)"),
    ("%[0]d", (1,), "%!d(BADINDEX)"),
    ("%[x]d", (1,), "%!d(BADINDEX)"),
    ("%[1", (1,), "%!(NOVERB)"),
    ("%[]d", (1,), "%!d(BADINDEX)"),
    ("%[2]*[1]d|", (7, 5), "    7|"),
    ("%[3]*.[2]*[1]f|", (12.0, 2, 6), " 12.00|"),
    ("%[1]d %d", (1, 2), "1 2"),
    ("%[2]d", (1, 2), "2"),
    ("%[1]2d", (1,), "%!d(BADINDEX)"),
    ("%[1].2d", (1,), "%!d(BADINDEX)"),
    ("%*d|%-*d|%*d|", (5, 1, 5, 2, -5, 3), "    1|2    |3    |"),
    ("%*d", ("a", 1), "%!(BADWIDTH)1"),
    ("%*d", (10000000, 1), "%!(BADWIDTH)1"),
    ("%.*f", (2, 3.14159), "3.14"),
    ("%.*f", (-2, 3.14159), "%!(BADPREC)3.141590"),
    ("%.*f", ("a", 3.14159), "%!(BADPREC)3.141590"),
    ("%99999999999d", (1,), "%!(NOVERB)%!(EXTRA int=1)"),
    ("%w", ("a",), "%!w(string=a)"),
    ("%w", (strings("a"),), "%!w([]string=[a])"),
    ("%w", (data(b"a"),), "[%!w(uint8=97)]"),
]

# Numbers, strings and bools.
SCALARS = [
    ("%t %v %5t|%-7t|%05t", (True, False, True, False, True), "true false  true|false  |0true"),
    ("%d", (True,), "%!d(bool=true)"),
    (
        "%d %5d %-5d| %05d %+d % d %x %X %#x %o %#o %O %b %#b",
        (42, 42, 42, 42, 42, 42, 255, 255, 255, 8, 8, 8, 5, 5),
        "42    42 42   | 00042 +42  42 ff FF 0xff 10 010 0o10 101 0b101",
    ),
    ("%d %05d %x %#X %b %o", (-42, -42, -255, -255, -5, -8), "-42 -0042 -ff -0XFF -101 -10"),
    ("%.3d|%8.3d|%-8.3d|%08.3d|%.0d|%5.0d|%+.0d", (7, 7, 7, 7, 0, 0, 0), "007|     007|007     |     007||     |"),
    ("%+05d|% 05d|%-05d|", (7,) * 3, "+0007| 0007|7    |"),
    ("%c%c%c|%5c|%-3c|%03c", (72, 233, 128512, 65, 65, 65), "Hé😀|    A|A  |00A"),
    ("%c%c%c", (-1, 1114112, 55296), "���"),
    ("%q %q %q %q %+q %q %q", (65, 39, 10, 128512, 128512, -1, 56448), r"'A' '\'' '\n' '😀' '\U0001f600' '�' '�'"),
    (
        "%U %#U %#U %U %8U| %.6U %#12U|",
        (65, 65, 173, -1, 233, 233, 128512),
        "U+0041 U+0041 'A' U+00AD U+FFFFFFFFFFFFFFFF   U+00E9| U+0000E9  U+1F600 '😀'|",
    ),
    ("%v %d %x %#v %T", (uint(255),) * 5, "255 255 ff 0xff uint"),
    ("%v %c %q %#v %T", (int32(233),) * 5, "233 é 'é' 233 int32"),
    ("%v %x %#v %T", (byte(65),) * 4, "65 41 0x41 uint8"),
    ("%v %v", (uint(18446744073709551615), -9223372036854775808), "18446744073709551615 -9223372036854775808"),
    (
        "%v %v %v %v %v %v",
        (1000000.0, 999999.0, 100000.0, 0.0001, 0.00001, 1e21),
        "1e+06 999999 100000 0.0001 1e-05 1e+21",
    ),
    ("%v %v %v %v %v", (0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1), "0 -0 5e-324 1.7976931348623157e+308 0.1"),
    ("%v %+v % v %5v| %05v| %-5v| %+f", (nan,) * 7, "NaN NaN  NaN   NaN|   NaN| NaN  | +NaN"),
    (
        "%v %v %+v % v %6v| %06v| %f %d",
        (inf, -inf, inf, inf, inf, inf, inf, inf),
        "+Inf -Inf +Inf  Inf   +Inf|   +Inf| +Inf %!d(float64=+Inf)",
    ),
    (
        "%f %F %.0f %.1f %.2f %8.2f| %-8.2f| %08.2f %+.1f % .1f",
        (3.14159, 3.14159, 2.5, 0.25, 2.675, 3.14159, 3.14159, -3.14159, 2.0, 2.0),
        "3.141590 3.141590 2 0.2 2.67     3.14| 3.14    | -0003.14 +2.0  2.0",
    ),
    (
        "%e %E %.0e %.3e %12.2e| %012.2e",
        (123456.789, 123456.789, 15.0, 123456.789, 123456.789, -123456.789),
        "1.234568e+05 1.234568E+05 2e+01 1.235e+05     1.23e+05| -0001.23e+05",
    ),
    (
        "%g %G %.3g %.10g %g %g %.0g %.1g",
        (123456789.0, 1e-10, 123456.0, 123456.0, 100000.0, 1e6, 15.0, 0.00015),
        "1.23456789e+08 1E-10 1.23e+05 123456 100000 1e+06 2e+01 0.0001",
    ),
    (
        "%#g %#g %#.3g %#f %#.0f %#e %#.0e %#v",
        (1.0, 1e6, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        "1.00000 1.00000e+06 1.00 1.000000 1. 1.000000e+00 1.e+00 1",
    ),
    ("%b %b %b", (1.0, 0.0, 5e-324), "4503599627370496p-52 0p-1074 1p-1074"),
    (
        "%x %X %.0x %.2x %x %x %.3x %#x %x",
        (1.0, 0.1, 1.5, 1.999, 0.0, 5e-324, 0.0, 3.0, -1e100),
        (
            "0x1p+00 0X1.999999999999AP-04 0x1p+01 0x1.00p+01 0x0p+00 0x1p-1074 0x0.000p+00 "
            "0x1.8000p+01 -0x1.249ad2594c37dp+332"
        ),
    ),
    ("%d %s %q %t", (1.5,) * 4, "%!d(float64=1.5) %!s(float64=1.5) %!q(float64=1.5) %!t(float64=1.5)"),
    (
        "%v %.1f %+v %5.1f| %g %d %T",
        (1 + 2j, 1 - 2j, 1 + 2j, 1 + 2j, complex(nan, inf), 1j, 1j),
        "(1+2i) (1.0-2.0i) (1+2i) (  1.0 +2.0i)| (NaN+Infi) %!d(complex128=(0+1i)) complex128",
    ),
    (
        "%s %v %q %x %X %10s| %-10s| %.2s %5.1s|",
        ("hé",) * 9,
        'hé hé "hé" 68c3a9 68C3A9         hé| hé        | hé     h|',
    ),
    ("%05s|%-05s|%.0s|%.9s|", ("ab",) * 4, "000ab|ab   ||ab|"),
    (
        "% x|%#x|%# x|% X|%# X|%.2x|%8x|%-8x|%08x|%x|%4x|",
        ("hey", "hey", "hey", "hey", "hey", "hey", "ab", "ab", "ab", "", ""),
        ("68 65 79|0x686579|0x68 0x65 0x79|68 65 79|0X68 0X65 0X79|6865|    6162|6162    |00006162||    |"),
    ),
    (
        "%q %q %q",
        ("a\"b\\c`d'", "\a\b\f\n\r\t\v\x00\x1f\x7f", "é中😀\u2028\xa0\xad\ufeff\u0378\U0010ffff\ufffd"),
        (
            '"a\\"b\\\\c`d\'" "\\a\\b\\f\\n\\r\\t\\v\\x00\\x1f\\x7f" '
            r'"é中😀\u2028\u00a0\u00ad\ufeff\u0378\U0010ffff�"'
        ),
    ),
    ("%+q %+q", ("é中😀\u2028\xa0\x7f", "a\"'"), '"\\u00e9\\u4e2d\\U0001f600\\u2028\\u00a0\\x7f" "a\\"\'"'),
    ("%q %+q %s %x", ("a\udcff\udc80b", "a\udcff", "\udcff", "\udcff"), '"a\\xff\\x80b" "a\\xff" \udcff ff'),
    (
        "%#q %#q %#q %#q %#+q",
        ("plain", "back`quote", "tab\there", "line\n", "é"),
        '`plain` "back`quote" `tab\there` "line\\n" `é`',
    ),
    ("%8q| %-8q| %.2q", ("é", "é", "éab"), '     "é"| "é"     | "éa"'),
    ("%#v %#v %T", ("a\n`", "`", "a"), r'"a\n`" "`" string'),
    ("%d %c %t %U %e", ("a",) * 5, "%!d(string=a) %!c(string=a) %!t(string=a) %!U(string=a) %!e(string=a)"),
    ("%p %p %p", ("a", 1, None), "%!p(string=a) %!p(int=1) %!p(<nil>)"),
]

# Slices, maps, structs, pointers and values with a String method.
COMPOSITES = [
    (
        "%v %s %q %x %X %d %#v %T",
        (
            strings("a", "b c"),
            strings("a", "b c"),
            strings("a", "b c"),
            strings("a", "b c"),
            strings("a", "b c"),
            strings("a", "b"),
            strings("a", "b"),
            strings("a"),
        ),
        (
            '[a b c] [a b c] ["a" "b c"] [61 622063] [61 622063] [%!d(string=a) '
            '%!d(string=b)] []string{"a", "b"} []string'
        ),
    ),
    ("%v %#v %s %p %T", (NIL_STRINGS,) * 5, "[] []string(nil) [] 0x0 []string"),
    (
        "%v %d %s %#v %T",
        (anys("a", 1, None, 2.5, True), anys("a", 1, None), anys("a", 1, None), anys("a", 1, None, anys()), anys()),
        (
            "[a 1 <nil> 2.5 true] [%!d(string=a) 1 <nil>] [a %!s(int=1) <nil>] []interface "
            '{}{"a", 1, interface {}(nil), []interface {}{}} []interface {}'
        ),
    ),
    (
        "%v %05d %x %c %s",
        (ints(1, -2), ints(1, -2), ints(10, 11), ints(72, 105), ints(1, 2)),
        "[1 -2] [00001 -0002] [a b] [H i] [%!s(int=1) %!s(int=2)]",
    ),
    (
        "%5v|%-5v|%05v|%.1v|",
        (strings("a", "b"), strings("a", "b"), ints(1, 2), strings("abc")),
        "[    a     b]|[a     b    ]|[00001 00002]|[a]|",
    ),
    (
        "%v %d %s %q %x %X % x %#x %#v %T",
        (
            data(b"hi"),
            data(b"hi"),
            data(b"hi"),
            data(b"hi"),
            data(b"hi"),
            data(b"\xab"),
            data(b"hi"),
            data(b"hi"),
            data(b"hi"),
            data(b"hi"),
        ),
        '[104 105] [104 105] hi "hi" 6869 AB 68 69 0x6869 []byte{0x68, 0x69} []uint8',
    ),
    (
        "%c %o %t %U %.1s| %5s| %v %#v %x",
        (data(b"hi"), data(b"hi"), data(b"h"), data(b"hi"), data(b"hi"), data(b"hi"), NIL_BYTES, NIL_BYTES, NIL_BYTES),
        "[h i] [150 151] [%!t(uint8=104)] [U+0068 U+0069] h|    hi| [] []byte(nil) ",
    ),
    ("%v %s %x %#v %d %T", (image(b"hi"),) * 6, "[104 105] hi 6869 main.Image{0x68, 0x69} [104 105] main.Image"),
    (
        "%v %s %x %#v",
        (images(b"hi", b"yo"), images(b"hi", b"yo"), images(b"hi", b"yo"), images(b"hi")),
        "[[104 105] [121 111]] [hi yo] [6869 796f] []main.Image{main.Image{0x68, 0x69}}",
    ),
    (
        "%v %s %d %#v %T",
        (mapping(b=1, a="x"), mapping(b="y", a="x"), mapping(b=1, a="x"), mapping(b=1, a="x"), mapping()),
        (
            "map[a:x b:1] map[a:x b:y] map[%!d(string=a):%!d(string=x) %!d(string=b):1] "
            'map[string]interface {}{"a":"x", "b":1} map[string]interface {}'
        ),
    ),
    (
        "%v %#v %v %#v %p",
        (NIL_MAP, NIL_MAP, mapping(), mapping(), NIL_MAP),
        "map[] map[string]interface {}(nil) map[] map[string]interface {}{} 0x0",
    ),
    (
        "%v %d %#v %T",
        (NUMBERED,) * 4,
        (
            "map[-2:b 9:i 10:j] map[-2:%!d(string=b) 9:%!d(string=i) 10:%!d(string=j)] "
            'map[int]string{-2:"b", 9:"i", 10:"j"} map[int]string'
        ),
    ),
    ("%v", (RECORD,), r'{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 [string null] {"n":"\u003cn\u003e"} {}}'),
    (
        "%+v",
        (RECORD,),
        (
            "{A:7 B:x y C:<nil> D:[p q] E:map[k:1.5] F:<nil> G:true H:1e+06 P:[string null] "
            r'J:{"n":"\u003cn\u003e"} K:{}}'
        ),
    ),
    (
        "%#v",
        (RECORD,),
        (
            'main.Record{A:7, B:"x y", C:interface {}(nil), D:[]string{"p", "q"}, '
            'E:map[string]interface {}{"k":1.5}, F:(*main.Record)(nil), G:true, H:1e+06, '
            'P:main.Kinds{"string", "null"}, J:main.Note{N:"<n>", M:interface {}(nil)}, '
            "K:main.Arguments(nil)}"
        ),
    ),
    (
        "%s",
        (RECORD,),
        (
            "{%!s(int=7) x y <nil> [p q] map[k:%!s(float64=1.5)] %!s(*main.Record=<nil>) "
            r'%!s(bool=true) %!s(float64=1e+06) [string null] {"n":"\u003cn\u003e"} {}}'
        ),
    ),
    (
        "%d",
        (RECORD,),
        (
            "{7 %!d(string=x y) <nil> [%!d(string=p) %!d(string=q)] "
            "map[%!d(string=k):%!d(float64=1.5)] 0 %!d(bool=true) %!d(float64=1e+06) "
            "[%!d(string=string) %!d(string=null)] {%!d(string=<n>) <nil>} map[]}"
        ),
    ),
    (
        "%q",
        (RECORD,),
        (
            '{\'\\a\' "x y" <nil> ["p" "q"] '
            'map["k":%!q(float64=1.5)] %!q(*main.Record=<nil>) '
            '%!q(bool=true) %!q(float64=1e+06) "[string null]" '
            r'"{\"n\":\"\\u003cn\\u003e\"}" "{}"}'
        ),
    ),
    (
        "%w",
        (RECORD,),
        ("%!w(main.Record={7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 [string null] {<n> <nil>} map[]})"),
    ),
    ("%T %T", (RECORD, RECORD_POINTER), "main.Record *main.Record"),
    (
        "%v",
        (RECORD_POINTER,),
        r'&{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 [string null] {"n":"\u003cn\u003e"} {}}',
    ),
    (
        "%+v",
        (RECORD_POINTER,),
        (
            "&{A:7 B:x y C:<nil> D:[p q] E:map[k:1.5] F:<nil> G:true H:1e+06 P:[string null] "
            r'J:{"n":"\u003cn\u003e"} K:{}}'
        ),
    ),
    (
        "%#v",
        (RECORD_POINTER,),
        (
            '&main.Record{A:7, B:"x y", C:interface {}(nil), D:[]string{"p", "q"}, '
            'E:map[string]interface {}{"k":1.5}, F:(*main.Record)(nil), G:true, H:1e+06, '
            'P:main.Kinds{"string", "null"}, J:main.Note{N:"<n>", M:interface {}(nil)}, '
            "K:main.Arguments(nil)}"
        ),
    ),
    (
        "%t",
        (RECORD_POINTER,),
        (
            "&{%!t(int=7) %!t(string=x y) <nil> [%!t(string=p) %!t(string=q)] "
            "map[%!t(string=k):%!t(float64=1.5)] %!t(*main.Record=<nil>) true "
            "%!t(float64=1e+06) [%!t(string=string) %!t(string=null)] {%!t(string=<n>) "
            "<nil>} map[]}"
        ),
    ),
    (
        "%v %+v %s %d %#v %x %p %t",
        (NIL_RECORD,) * 8,
        "<nil> <nil> %!s(*main.Record=<nil>) 0 (*main.Record)(nil) 0 0x0 %!t(*main.Record=<nil>)",
    ),
    ("%v %5v| %s %d %#v", (NIL_NOTE,) * 5, "<nil> <nil>| <nil> 0 (*main.Note)(nil)"),
    (
        "%v %s %q %x %d %+v %#v %5.3s|",
        (NOTE,) * 8,
        (
            r'{"n":"\u003cn\u003e","m":5} {"n":"\u003cn\u003e","m":5} '
            r'"{\"n\":\"\\u003cn\\u003e\",\"m\":5}" 7b226e223a225c75303033636e5c7530303365222c'
            r'226d223a357d {%!d(string=<n>) 5} {"n":"\u003cn\u003e","m":5} main.Note{N:"<n>", '
            'M:5}   {"n|'
        ),
    ),
    (
        "%v %d %#v %T",
        (NOTE_POINTER,) * 4,
        r'{"n":"\u003cn\u003e","m":5} &{%!d(string=<n>) 5} &main.Note{N:"<n>", M:5} *main.Note',
    ),
    (
        "%v %s %d %#v",
        (NOTES,) * 4,
        (
            r'[{"n":"\u003cn\u003e","m":5},{"n":"\u003cn\u003e","m":5}] '
            r'[{"n":"\u003cn\u003e","m":5},{"n":"\u003cn\u003e","m":5}] [{%!d(string=<n>) 5} '
            '{%!d(string=<n>) 5}] main.Notes{main.Note{N:"<n>", M:5}, main.Note{N:"<n>", '
            "M:5}}"
        ),
    ),
    (
        "%v %v %v",
        (anys(NOTE, "a"), mapping(n=NOTE), NIL_NOTES),
        r'[{"n":"\u003cn\u003e","m":5} a] map[n:{"n":"\u003cn\u003e","m":5}] null',
    ),
    (
        "%v %s %d %#v",
        (arguments(b=1.0, a="<"), arguments(b=1e6), arguments(b=1.0), arguments(b=1.0)),
        r'{"a":"\u003c","b":1} {"b":1000000} map[%!d(string=b):%!d(float64=1)] main.Arguments{"b":1}',
    ),
    ("%v %v %#v", (NIL_ARGUMENTS, arguments(), NIL_ARGUMENTS), "{} {} main.Arguments(nil)"),
    (
        "%v|%v|%v|%v|%q|%#v|%d|",
        (kinds(), kinds("string"), kinds("a", "b"), NIL_KINDS, kinds("a"), kinds("a"), kinds("a")),
        '|string|[a b]||"a"|main.Kinds{"a"}|[%!d(string=a)]|',
    ),
    ("%v %v", (arguments(x=nan), anys(arguments(x=inf), 1)), " [ 1]"),
]

# An operand, and what Sprint returns for it alone.
VALUES = [
    ("a", "a"),
    ("", ""),
    (True, "true"),
    (False, "false"),
    (None, "<nil>"),
    (0, "0"),
    (-7, "-7"),
    (uint(7), "7"),
    (byte(65), "65"),
    (1e6, "1e+06"),
    (-0.0, "-0"),
    (0.1, "0.1"),
    (nan, "NaN"),
    (1 + 2j, "(1+2i)"),
    (strings("a", "b"), "[a b]"),
    (NIL_STRINGS, "[]"),
    (anys("a", 1, None), "[a 1 <nil>]"),
    (data(b"hi"), "[104 105]"),
    (mapping(b=1, a=None), "map[a:<nil> b:1]"),
    (NUMBERED, "map[-2:b 9:i 10:j]"),
    (RECORD, r'{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 [string null] {"n":"\u003cn\u003e"} {}}'),
    (RECORD_POINTER, r'&{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 [string null] {"n":"\u003cn\u003e"} {}}'),
    (NIL_RECORD, "<nil>"),
    (NOTE, r'{"n":"\u003cn\u003e","m":5}'),
    (NOTE_POINTER, r'{"n":"\u003cn\u003e","m":5}'),
    (NOTES, r'[{"n":"\u003cn\u003e","m":5},{"n":"\u003cn\u003e","m":5}]'),
    (kinds("string"), "string"),
    (kinds("a", "b"), "[a b]"),
    (arguments(a=1e6), '{"a":1000000}'),
    (NIL_ARGUMENTS, "{}"),
]

# Operands, what Sprint returns, what Sprintln returns.
PRINTED = [
    ((), "", "\n"),
    (("a", None, 1, 2, True, "sys"), "a<nil> 1 2 truesys", "a <nil> 1 2 true sys\n"),
    ((1, 2), "1 2", "1 2\n"),
    ((1, "a", 2), "1a2", "1 a 2\n"),
    (("a", "b"), "ab", "a b\n"),
    ((None, None), "<nil> <nil>", "<nil> <nil>\n"),
    ((True, 1.0, 1e6, 1e-7, uint(3)), "true 1 1e+06 1e-07 3", "true 1 1e+06 1e-07 3\n"),
    ((strings("a", "b"), ints(1), "x", ints(2)), "[a b] [1]x[2]", "[a b] [1] x [2]\n"),
    (
        (RECORD, NOTE, NOTES, kinds("string"), kinds(), kinds("a", "b")),
        (
            "{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 [string null] "
            r'{"n":"\u003cn\u003e"} {}} {"n":"\u003cn\u003e","m":5} '
            r'[{"n":"\u003cn\u003e","m":5},{"n":"\u003cn\u003e","m":5}] string  [a b]'
        ),
        (
            "{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 "
            r'[string null] {"n":"\u003cn\u003e"} {}} '
            r'{"n":"\u003cn\u003e","m":5} '
            r'[{"n":"\u003cn\u003e","m":5},{"n":"\u003cn\u003e",'
            '"m":5}] string  [a b]\n'
        ),
    ),
    (
        (RECORD_POINTER, NIL_RECORD, NIL_MAP, NIL_STRINGS),
        (
            "&{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 [string null] "
            r'{"n":"\u003cn\u003e"} {}} <nil> map[] []'
        ),
        (
            "&{7 x y <nil> [p q] map[k:1.5] <nil> true 1e+06 "
            r'[string null] {"n":"\u003cn\u003e"} {}} <nil> '
            "map[] []\n"
        ),
    ),
    (
        (data(b"hi"), images(b"hi"), arguments(b=1.0, a="<"), NIL_ARGUMENTS),
        r'[104 105] [[104 105]] {"a":"\u003c","b":1} {}',
        '[104 105] [[104 105]] {"a":"\\u003c","b":1} {}\n',
    ),
    (
        (anys(None, anys(), mapping(z=None, é=1, a=NOTE)), NUMBERED),
        r'[<nil> [] map[a:{"n":"\u003cn\u003e","m":5} z:<nil> é:1]] map[-2:b 9:i 10:j]',
        '[<nil> [] map[a:{"n":"\\u003cn\\u003e","m":5} z:<nil> é:1]] map[-2:b 9:i 10:j]\n',
    ),
    ((1 + 2j, int32(-5), "\udcff"), "(1+2i) -5\udcff", "(1+2i) -5 \udcff\n"),
]


@pytest.mark.parametrize(("format", "args", "expected"), DIRECTIVES)
def test_directives(format: str, args: tuple[Any, ...], expected: str) -> None:
    assert sprintf(format, args) == expected


@pytest.mark.parametrize(("format", "args", "expected"), SCALARS)
def test_scalars(format: str, args: tuple[Any, ...], expected: str) -> None:
    assert sprintf(format, args) == expected


@pytest.mark.parametrize(("format", "args", "expected"), COMPOSITES)
def test_composites(format: str, args: tuple[Any, ...], expected: str) -> None:
    assert sprintf(format, args) == expected


@pytest.mark.parametrize(("args", "printed", "printed_line"), PRINTED)
def test_print(args: tuple[Any, ...], printed: str, printed_line: str) -> None:
    assert sprint(args) == printed
    assert sprintln(args) == printed_line


@pytest.mark.parametrize(("value", "printed"), VALUES)
def test_one_operand(value: Any, printed: str) -> None:
    assert format_value(value) == printed


def test_reflects_zero_value_prints_as_nil() -> None:
    assert format_value(INVALID) == "<nil>"
    assert sprint([INVALID, 1]) == "<nil> 1"
    assert sprintf("%v %d", [INVALID, INVALID]) == "<nil> %!d(<nil>)"
    assert sprintf("a", [INVALID]) == "a%!(EXTRA <nil>)"


def test_a_string_prints_as_the_very_same_object() -> None:
    text = TracedStr("hé", origin="datum")
    assert format_value(text) is text
    assert sprintf("%s|%5s|%x", [text] * 3) == "hé|   hé|68c3a9"


def test_a_part_of_a_slice_prints_alone() -> None:
    part = Slice(GoType.slice(INT), [1, 2, 3, 4], start=1, stop=3)
    assert sprintf("%v %#v", [part, part]) == "[2 3] []int{2, 3}"


@pytest.mark.parametrize(
    ("format", "value"),
    [
        ("%v", anys(RECORD_POINTER)),
        ("%d", anys(RECORD_POINTER)),
        ("%#v", mapping(k=RECORD_POINTER)),
        ("%v", Struct(RECORD.type, RECORD.fields | {"F": RECORD_POINTER})),
        ("%p", RECORD_POINTER),
        ("%p", strings("a")),
        ("%p", mapping()),
        ("%v", Map(GoType.pointer(GoType("main.Ordered", "struct")), {"a": 1})),
        ("%v", anys(print)),
    ],
)
def test_an_address_is_refused(format: str, value: Any) -> None:
    with pytest.raises(AddressPrinted, match="prints as an address in memory"):
        sprintf(format, [value])


def test_a_pointer_below_prints_by_its_string_method() -> None:
    assert format_value(anys(NOTE_POINTER)) == r'[{"n":"\u003cn\u003e","m":5}]'


# What the Go program of tests/go can be handed as data; strings are plain, numbers float64.
GO_DATA = st.recursive(
    st.one_of(
        st.booleans(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.integers(-(2**63), 2**63 - 1).map(lambda number: {"$int": str(number)}),
        st.integers(0, 2**64 - 1).map(lambda number: {"$uint": str(number)}),
        st.sampled_from(["NaN", "+Inf", "-Inf"]).map(lambda number: {"$float": number}),
        st.lists(st.text(st.characters(codec="utf-8"), max_size=4), max_size=3).map(lambda items: {"$strings": items}),
    ),
    lambda items: st.one_of(st.lists(items, max_size=3), st.dictionaries(st.sampled_from("abc"), items, max_size=2)),
    max_leaves=4,
)
GO_FORMATS = st.lists(
    st.one_of(
        st.from_regex(r"%[-+# 0]{0,3}(\d|1\d)?(\.(\d|1\d)?)?[vTtbcdoOxXUeEfFgGsqw]", fullmatch=True),
        st.from_regex(r"%[-+# 0]?(\[[0-3x]?\])?\*?(\.\*)?(\[[0-3]\])?[vds%z!é]?", fullmatch=True),
        st.sampled_from(["", "text", "é"]),
    ),
    max_size=4,
).map("".join)


@settings(deadline=None, max_examples=400)
@given(format=GO_FORMATS, values=st.lists(GO_DATA, min_size=3, max_size=3))
def test_any_format_prints_as_in_go(go_oracle: Oracle, format: str, values: list[Any]) -> None:
    data = {"f": format, "a": values[0], "b": values[1], "c": values[2]}
    answer = go_oracle.ask({"op": "exec", "template": "{{ printf .f .a .b .c }}", "data": data})
    assert to_bytes(sprintf(format, [go_value(value) for value in values])) == to_bytes(answer["output"])
