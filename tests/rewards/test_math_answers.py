"""Answers to mathematics: equal forms that must pay, and attacks that must not.

The tables hold references or questions, and answers. `RIGHT` is the test against false rejections,
`COPIES` and `WRONG` are the attacks: copied questions, several candidates, work that is left.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from registered import registered
from rods.envs.questions.files import load_question_tasks
from rods.registry import recipe_file
from rods.reward import score
from rods.rewards import REWARDS, get_reward
from rods.rewards.answers import final_answer, judge_answer
from rods.rewards.numbers import read_number
from rods.rewards.sameness import math_verdict, same_text
from rods.rewards.verifier import ask
from sweeps import slow
from tir_cases import play, question


def table(text: str) -> dict[str, list[str]]:
    """Rows of `head := answer  |  answer`; a row goes on in lines that are set in."""
    rows = re.sub(r"\n {4}", "  ", text.strip()).split("\n")
    found: dict[str, list[str]] = {}
    for head, answers in (row.split(" :=") for row in rows):
        found.setdefault(head, []).extend(a.strip() for a in answers.split("  |  ") if a.strip())
    return found


RIGHT = table(r"""
13 :=  13  |  13.  |  13.0  |  +13  |  $13$  |  $$13$$  |  \(13\)  |  \$13  |  €13  |  £13  |  13€
    |  ₩13  |  ₽ 13  |  13₺  |  13º  |  13°C  |  13 ° F  |  13 ℃
    |  13°  |  13^\circ  |  13^{\circ}  |  13^{\circ}\text{C}  |  (13)  |  {13}  |  \{13\}
    |  \left(13\right)  |  \text{13}  |  \mathbf{13}  |  \textbf{13}  |  \mathrm{13}  |  13 cm
    |  13cm  |  13\text{ cm}  |  13 \, \text{cm}^2  |  13\text{ cm}^{2}  |  13\ \mathrm{m}
    |  13 \text{ square units}  |  13 square units  |  13 apples  |  \text{13 apples}  |  13th
    |  13^{\text{th}}  |  x = 13  |  n=13  |  x_1 = 13  |  \angle ABC = 13^\circ  |  AB = 13
    |  m+n=13  |  f(2) = 13  |  \text{Area} = 13  |  \approx 13  |  ≈13  |  1.3e1
    |  1.3\times10^{1}  |  1.3 \cdot 10^1  |  **13**  |  013  |  \displaystyle 13
    |  x=13\text{ cm}  |  13~\text{cm}  |  13\;\text{hours}  |  \boldsymbol{13}  |  {\bf 13}
    |  13 = x  |  The answer is 13  |  the final answer is: 13.  |  Answer: 13  |  \text{Answer: }13
    |  13\text{ m/s}  |  \underline{13}  |  13 units  |  $13.00  |  13^{\circ}C  |  US\$13  |  US$13
    |  13^\circ\text{C}  |  13^{\circ}\mathrm{F}  |  13 US dollars
2^{-99} :=  \frac{1}{2^{99}}  |  1/2^{99}
3\cdot 2^{-50} :=  \frac{3}{2^{50}}
1-2^{-99} :=  1-\frac{1}{2^{99}}
x-2^{-99} :=  x-\frac{1}{2^{99}}
[1-2^{-99},\infty) :=  [1-\frac{1}{2^{99}},\infty)
\pi :=  3.141593
1300 :=  1300  |  1,300  |  1{,}300  |  1\,300  |  1,\!300  |  1.3e3  |  1.3\times 10^3
    |  1,300.00  |  \$1,300  |  \$1300.00  |  1300 dollars  |  1,300\text{ dollars}
1234567 :=  1,234,567  |  1{,}234{,}567  |  1\,234\,567  |  1,\!234,\!567
1000\pi :=  1,000\pi  |  1{,}000\pi  |  1\,000\pi
1,000\sqrt{3} :=  1000\sqrt{3}  |  1000 \sqrt3
\frac{1100}{3} :=  1,100/3  |  \frac{1,100}{3}
1/1,000,000 :=  1/1000000  |  \frac{1}{1,000,000}  |  10^{-6}
2^{1,000} :=  2^{1000}
1, 100\pi :=  1,100\pi  |  100\pi, 1
1,1000 :=  1, 1\,000  |  1000, 1  |  (1,1{,}000)
1000000 :=  1,000,000  |  10^6  |  1 million  |  1 \text{ million}  |  1\times10^6
\frac{1}{2} :=  1/2  |  \frac12  |  \dfrac{1}{2}  |  \tfrac12  |  \frac 1 2  |  \frac{1}2  |  0.5
    |  .5  |  0.50  |  ½  |  2/4  |  \frac{2}{4}  |  50\%  |  50%  |  P = \frac{1}{2}
    |  \frac{1}{2} \text{ cm}  |  1 / 2  |  \frac{1}{2}.  |  \left(\frac{1}{2}\right)
    |  {1 \over 2}
-\frac{1}{2} :=  -(1/2)  |  -(\frac12)  |  -1/2  |  \frac{-1}{2}  |  \frac{1}{-2}  |  -0.5
    |  −0.5  |  -\dfrac12
1.5 :=  3/2  |  \frac32  |  1\frac{1}{2}  |  1 1/2  |  1½  |  1\ \frac{1}{2}  |  1.50  |  1.5
\frac13 :=  0.333333  |  0.3333333  |  0.\overline{3}  |  0.\bar{3}  |  1/3
50\% :=  50%  |  50  |  0.5  |  \frac12  |  50 percent  |  50\text{ percent}
12\text{ cm} :=  12  |  12 cm  |  12\text{ cm}  |  12\text{ centimeters}  |  12 centimeters
    |  12 centimetres  |  12\mathrm{cm}
17 m :=  17 metres  |  17 metre
17 l :=  17 litres  |  17 liters
12 :=  12 cm^2  |  12 cm²  |  12 \text{ cm}^2  |  12\text{ cm}^{2}  |  12 \mathrm{~cm}^2
    |  12 \mathrm{cm^2}  |  12 \text{ cm^2}  |  12 m³  |  12cm²  |  12 square cm  |  12 sq. cm
    |  12 cubic meters  |  12 m/s²  |  12 \text{ m/s}^2  |  12 km/h  |  12 ft²  |  \text{12 cm}
    |  12 miles per hour  |  12¢  |  12 kg
12\text{ cm}^2 :=  12  |  12 cm^2  |  12 cm²  |  12 square centimeters  |  12 \mathrm{~cm}^{2}
    |  12 sq cm  |  12\text{ square cm}  |  12 cm^{2}  |  A = 12 \text{ cm}^2  |  12.0 cm²
12 cm² :=  12  |  12 cm^2  |  12 \text{ cm}^2
60\text{ km/h} :=  60  |  60 km/h  |  60 kilometers per hour  |  60 kph
5\text{ hours} :=  5  |  5 h  |  5 hours  |  5\text{ hrs}
30\text{ cents} :=  30  |  30¢  |  30 cents
2\pi\text{ cm} :=  2\pi  |  2\pi cm  |  2π cm  |  2\pi\text{ cm}
9\pi :=  9\pi cm^2  |  9\pi\text{ cm}^2  |  9π cm²
3h :=  h\cdot 3  |  3 h  |  h+2h
2m+3s :=  3s+2m  |  2 m + 3 s  |  3 s + 2 m
\sqrt{2} :=  \sqrt2  |  \sqrt{2}  |  2^{1/2}  |  \frac{2}{\sqrt{2}}  |  1.414214  |  x=\sqrt{2}
    |  √2  |  \sqrt{2}\text{ cm}  |  AB = \sqrt{2}
1+2\sqrt{3} :=  2\sqrt3+1  |  1 + 2\sqrt{3}  |  1+2\cdot\sqrt{3}  |  (1+2\sqrt3)
1-2\pi :=  1 - 2\pi  |  -2\pi+1  |  1-2*\pi
3\cdot 2^{99}+1 :=  1+3\cdot 2^{99}
2\sqrt{3} :=  2 * sqrt(3)  |  2 sqrt(3)  |  2\sqrt{3} cm  |  2\sqrt{3}\text{ units}  |  2√3 m²
10^{-6} :=  10^-6  |  0.000001  |  1e-6  |  1 x 10^-6
10^{12} :=  10^12  |  1 trillion
6\text{ ft }2\text{ in} :=  6 ft 2 in
3\text{ hours and }20\text{ minutes} :=  3 hours and 20 minutes
2\sqrt{2} :=  \sqrt{8}  |  2 \sqrt 2  |  2\cdot\sqrt{2}  |  \sqrt2 \cdot 2  |  2*sqrt(2)
\frac{3\pi}{4} :=  3\pi/4  |  \frac{3}{4}\pi  |  0.75\pi  |  \pi\cdot\frac34  |  \frac34 \pi
    |  3π/4
\frac{\sqrt{3}}{3} :=  \frac{1}{\sqrt{3}}  |  \sqrt{\frac13}  |  \frac{\sqrt3}3  |  \sqrt{3}/3
\frac{1+\sqrt{5}}{2} :=  \frac{\sqrt5+1}{2}  |  (1+\sqrt{5})/2  |  \frac12+\frac{\sqrt5}{2}
    |  0.5+0.5\sqrt{5}
\ln 2 :=  ln 2  |  ln(2)  |  \ln(2)  |  \frac{\ln 4}{2}  |  -\ln\frac12
\binom{100}{50} :=  \frac{100!}{50!50!}  |  \dbinom{100}{50}  |  \frac{100!}{(50!)^2}
2^{100} :=  4^{50}  |  2^{100}  |  2\cdot 2^{99}  |  1024^{10}  |  1267650600228229401496703205376
\arctan\frac12 :=  \tan^{-1}\frac12  |  \arctan(0.5)  |  \arctan \left(\frac{1}{2}\right)
e^2 :=  e^{2}  |  e*e  |  \exp(2)
x^2+x :=  x(x+1)  |  x+x^2  |  x^{2} + x  |  f(x)=x^2+x  |  y = x^2 + x
\sin x :=  sin x  |  sin(x)  |  \sin(x)  |  \cos(\frac{\pi}{2}-x)  |  \tan x\cos x
2+3i :=  3i+2  |  2 + 3 i
(1,2) :=  (1, 2)  |  \left(1,2\right)  |  1,2
1,2 :=  2,1  |  1, 2  |  1 and 2  |  1 \text{ and } 2  |  x=1,2  |  x=1 \text{ or } x=2
    |  \{1,2\}  |  x \in \{1,2\}  |  1;2  |  (1,2)  |  2, 1
-3, 3 :=  \pm 3  |  3,-3  |  x=\pm 3  |  3, -3
\{1,2,3\} :=  \lbrace 1,2,3\rbrace  |  1, 2, and 3  |  \{3,2,1\}  |  \left\{1, 2, 3\right\}
    |  x\in\{1,2,3\}  |  1,2,3
(1,2), (3,4) :=  (3,4),(1,2)  |  (1,2) and (3,4)
(0,1) :=  (0, 1)  |  x\in(0,1)  |  \left(0,1\right)
[0,\infty) :=  [0, \infty)  |  [0,+\infty)  |  \left[0,\infty\right)  |  x \in [0,\infty)
(-\infty,1)\cup(2,\infty) :=  (-\infty,1) U (2,\infty)  |  (2,\infty)\cup(-\infty,1)
y=2x+3 :=  2x+3  |  y = 3+2x  |  y=2x+3  |  2x-y+3=0
x=5 :=  5  |  x = 2+3 = 5  |  a_1 = 5  |  x = 5  |  5.0
\begin{pmatrix}1&2\\3&4\end{pmatrix} :=  \begin{bmatrix}1&2\\3&4\end{bmatrix}
    |  \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
A, C :=  C, A  |  A,C  |  AC  |  A and C  |  (A), (C)  |  \text{A and C}
A :=  [A]  |  A:  |  Option A  |  option (A)  |  \text{Choice A}  |  The answer is (A).  |  A
    |  (A)  |  \text{A}  |  \textbf{(A)}  |  a  |  A.  |  A)
\text{(C)} :=  C  |  (C)  |  \textbf{C}
\text{Monday} :=  Monday  |  monday  |  \textbf{Monday}
The Who :=  The Who  |  the who  |  Who
\infty :=  \infty  |  ∞  |  +\infty
\frac{1\pm\sqrt{5}}{2} :=  \frac{1+\sqrt5}{2}, \frac{1-\sqrt5}{2}  |  (1±√5)/2
1\pm\sqrt{3} :=  1-\sqrt3, 1+\sqrt3  |  1+\sqrt3 \text{ and } 1-\sqrt3
\langle 1,2,3\rangle :=  (1,2,3)  |  ⟨1,2,3⟩
1:2 :=  1:2  |  1 : 2
101_2 :=  101_2  |  101_{2}  |  101  |  (101)_2  |  101₂
2A_{16} :=  2a_{16}  |  2A_{16}
3:30 :=  3:30  |  3:30 PM
3:4 :=  3:4  |  3/4  |  3∶4
x=1,y=2 :=  x=1, y=2  |  y=2, x=1  |  x = 1 and y = 2  |  (1,2)  |  (x,y)=(1,2)  |  x=1;y=2
x=\sqrt{2}, y=1 :=  y=1,x=√2  |  (\sqrt2,1)
\emptyset :=  \varnothing  |  ∅  |  \{\}  |  \{ \}
[0,1) :=  [0, 1)  |  x \in [0,1)
3:30\text{ p.m.} :=  3:30 PM  |  3:30 p.m.  |  3:30\text{ PM}
(x,y)=(1,2) :=  (1,2)  |  (1, 2)  |  (x, y) = (1, 2)
x = 2 \text{ or } x = 3 :=  2, 3  |  3, 2  |  x=2, 3  |  \{2,3\}
0 :=  0  |  0.0  |  -0  |  0%
-5 :=  -5  |  −5  |  - 5  |  (-5)  |  x=-5
1.2\times10^8 :=  1.2 x 10^8  |  120000000  |  1.2e8  |  120,000,000  |  1.2 \cdot 10^{8}
    |  12\times 10^7
    |  120 million
0.0000012 :=  1.2\times10^{-6}  |  1.2e-6  |  \frac{3}{2500000}
6.28 :=  6.28
x :=  x  |  X
n! :=  n!
\frac{n(n+1)}{2} :=  \frac{n^2+n}{2}  |  n(n+1)/2  |  \frac{1}{2}n(n+1)  |  \binom{n+1}{2}
\frac{x}{2}+C :=  0.5x+C  |  C+\frac{x}{2}
17 :=  seventeen  |  Seventeen.  |  \text{seventeen}  |  8+9=17  |  x=8+9=17  |  $8+9 = 17$
    |  3 \times 4 + 5 = 17  |  \sqrt{289} = 17
21 :=  twenty-one  |  twenty one
100 :=  one hundred
17\text{ cm} :=  seventeen
60^\circ :=  60 degrees  |  60 deg  |  60  |  60°
20^\circ\text{C} :=  20°  |  20 degrees
\frac{\pi}{3} :=  \frac{\pi}{3}\text{ radians}  |  \frac{\pi}{3}\text{ rad}
£5 :=  5 pounds  |  5 GBP
5 lb :=  5 pounds  |  5 lbs  |  5
5 pounds :=  5 lb  |  £5
\frac{3}{4} :=  3 \over 4  |  3\over4  |  $3 \over 4$
-\frac34 :=  -3 \over 4
(-\infty,2] :=  x\le 2  |  x<=2  |  2\ge x  |  x \leqslant 2  |  y≤2
(-\infty,2) :=  x<2  |  x\lt 2
[2,\infty) :=  x\ge 2  |  2\le x
(-\infty,\sqrt{2}] :=  x\le\sqrt2
[-2,2] :=  -2\le x\le 2  |  [-2, 2]
[1,2,3] :=  1, 2, 3
1<x<2 :=  2>x>1  |  2 > x > 1
1<x\le2 :=  2\ge x>1
x>3 :=  3<x
\begin{pmatrix}1\\2\end{pmatrix} :=  (1,2)  |  (1,2)^T  |  [1,2]^T  |  \left(1,2\right)^{\top}
    |  \langle 1,2\rangle  |  (1, 2)^{\mathsf{T}}  |  \begin{smallmatrix}1\\2\end{smallmatrix}
    |  \left[\begin{array}{c}1\\2\end{array}\right]
\begin{bmatrix}\frac{1}{2}\\\sqrt{2}\end{bmatrix} :=  (1/2,\sqrt2)
""")  # noqa: RUF001
COPIES = table(r"""
What is 6 + 7? => 13 :=  6 + 7  |  6+7  |  7+6  |  26/2  |  \frac{26}{2}  |  13 \cdot 1  |  13+0
    |  \sqrt{169}  |  13^1  |  What is 6 + 7?
What is 3*4+5? => 17 :=  3*4+5  |  5 + 3*4  |  4*3+5  |  3\times4+5  |  5+4×3  |  12+5  |  16+1
    |  3·4 + 5  |  3*4+5 = 18  |  17, 18, 19  |  17 or 18  |  {17,18}  |  17 18  |  1e400  |  34/2
    |  10^{10^{10}}  |  \frac{\frac{34}{2}}{1}  |  3*4+5 = 3*4+5  |  three times four plus five
    |  18 = 17  |  17 = 18  |  17 \cdot 1  |  289^{1/2}  |  3 times 4 plus 5
Factor x^2 + 3x + 2. => (x+1)(x+2) :=  x^2+3x+2  |  3x+2+x^2  |  2+3x+x²  |  2 + x*3 + x^2
    |  3·x+x²+2  |  3\times x + x^2 + 2  |  x^{2}+2+3x  |  f(x) = 2+3x+x^2
Expand (x+1)(x+2). => x^2+3x+2 :=  (x+2)(x+1)  |  (x + 2) * (x + 1)  |  (1+x)(2+x)
    |  (x+2)\times(x+1)
Compute √2 * √3. => \sqrt{6} :=  √3*√2  |  √3·√2  |  \sqrt{3}\sqrt{2}  |  sqrt(3)*sqrt(2)
Simplify 2x*3 and 5y + 4y. => 6x :=  3*2x  |  2x\cdot 3  |  x*2*3
Simplify (x^2+3x)/x. => x+3 :=  (3x+x^2)/x  |  \frac{3x+x^2}{x}
Simplify 2x + 4x = t. => 6x :=  4x + 2x  |  2*x+4*x
Simplify $\frac{1}{2}x + \frac{1}{3}x$. => \frac{5x}{6} :=  \frac13x + \frac12x  |  1/3x + 1/2x
Compute $2^{10}$. => 1024 :=  2^{10}  |  2^10  |  4^5  |  32^2  |  2\cdot 512  |  2**10
    |  1024\cdot 1
Compute $\binom{10}{5}$. => 252 :=  \binom{10}{5}  |  \frac{10!}{5!5!}  |  C(10,5)
    |  {10 \choose 5}
Evaluate $\sum_{i=1}^{10} i$. => 55 :=  \sum_{i=1}^{10} i  |  \frac{10\cdot 11}{2}
    |  1+2+3+4+5+6+7+8+9+10
Evaluate $\int_0^1 x\,dx$. => \frac{1}{2} :=  \int_0^1 x\,dx  |  \int_0^1 x dx
Evaluate $\log_2 8$. => 3 :=  \log_2 8  |  \log_{2}{8}  |  \frac{\ln 8}{\ln 2}
Find the determinant $\begin{vmatrix}1&2\\3&4\end{vmatrix}$. => -2 :=
    |  \begin{vmatrix}1&2\\3&4\end{vmatrix}  |  \det\begin{pmatrix}1&2\\3&4\end{pmatrix}
    |  1*4-2*3
Compute $5!$. => 120 :=  5!  |  5\cdot4\cdot3\cdot2\cdot1
Compute $|3-8|$. => 5 :=  |3-8|  |  \left|3-8\right|
Compute $\lfloor 3.7 \rfloor$. => 3 :=  \lfloor 3.7 \rfloor
Simplify $\frac{15}{30}$. => \frac{1}{2} :=  \frac{15}{30}  |  15/30  |  \frac{30}{60}
    |  \dfrac{15}{30}  |  15 \div 30
What is 1234 divided by 8, as a decimal? => 154.25 :=  1234/8  |  \frac{1234}{8}  |  1234 \div 8
Write $0.5$ as a fraction. => \frac{1}{2} :=  0.5  |  .5  |  0.50
Write $0.\overline{3}$ as a fraction. => \frac{1}{3} :=  0.\overline{3}
Write $3/8$ as a decimal. => 0.375 :=  3/8  |  \frac38
Write $\frac{7}{2}$ as a mixed number. => 3\frac{1}{2} :=  \frac{7}{2}  |  7/2
Write 50% as a decimal. => 0.5 :=  50%  |  50\%
Write 0.25 as a percent. => 25% :=  0.25
Write $1.2\times10^8$ in standard form. => 120000000 :=  1.2\times10^8  |  1.2e8
Write 120,000,000 in scientific notation. => 1.2\times10^8 :=  120,000,000  |  120000000
Compute $10^2\cdot10^4$. => 1000000 :=  10^2\cdot10^4
What is $10^6$? => 1000000 :=  10^6  |  10^{6}
Simplify $\sqrt{8}$. => 2\sqrt{2} :=  \sqrt{8}  |  \sqrt8  |  \sqrt{8}+0  |  1\cdot\sqrt{8}
    |  \sqrt{16/2}  |  \sqrt{4+4}  |  \sqrt{4\cdot 2}  |  \sqrt{\frac{16}{2}}  |  \sqrt{9-1}
    |  \sqrt{8}\cdot 1  |  √8
What is $\sin 60^\circ$? => \frac{\sqrt{3}}{2} :=  \sin 60^\circ  |  \sin(60^\circ)
    |  \sin{60^{\circ}}  |  \sin\frac{\pi}{3}  |  \cos 30^\circ
Compute $\arcsin\frac12$. => \frac{\pi}{6} :=  \arcsin\frac12  |  \sin^{-1}\frac12
    |  \sin^{-1}(0.5)
Compute $\sqrt{2}\cdot\sqrt{3}$. => \sqrt{6} :=  \sqrt{2}\cdot\sqrt{3}  |  \sqrt{3}\cdot\sqrt{2}
    |  \sqrt2\sqrt3
Expand $(x+1)(x+2)$. => x^2+3x+2 :=  (x+1)(x+2)  |  (x+2)(x+1)  |  (x+1)\cdot(x+2)
    |  (x+1)(x+2)+0  |  1\cdot(x+1)(x+2)  |  f(x)=(x+1)(x+2)
Factor $x^2+3x+2$. => (x+1)(x+2) :=  x^2+3x+2  |  x^2 + 3x + 2  |  2+3x+x^2  |  x^{2}+3x+2
    |  3x+x^2+2
Find $\int x\,dx$. => \frac{x^2}{2}+C :=  \int x\,dx  |  \int x dx + C
Find $\frac{d}{dx} x^3$. => 3x^2 :=  \frac{d}{dx} x^3  |  \frac{d}{dx}(x^3)
Compute $\lim_{x\to0}\frac{\sin x}{x}$. => 1 :=  \lim_{x\to0}\frac{\sin x}{x}
Find $\sum_{k=1}^n k$. => \frac{n(n+1)}{2} :=  \sum_{k=1}^n k
Simplify $\frac{x^2-1}{x-1}$. => x+1 :=  \frac{x^2-1}{x-1}  |  (x^2-1)/(x-1)
Compute $(1+i)^2$. => 2i :=  (1+i)^2  |  (1+i)(1+i)
Find $\begin{pmatrix}1\\2\end{pmatrix}+\begin{pmatrix}3\\4\end{pmatrix}$. => (4, 6) :=
    |  \begin{pmatrix}1\\2\end{pmatrix}+\begin{pmatrix}3\\4\end{pmatrix}
Compute $2^{50}\cdot2^{50}$. => 2^{100} :=  2^{50}\cdot2^{50}  |  2^{50}\times 2^{50}
Rationalize $\frac{1}{\sqrt{3}}$. => \frac{\sqrt{3}}{3} :=  \frac{1}{\sqrt{3}}  |  1/\sqrt{3}
Solve $x^2=4$. => -2, 2 :=  x^2=4  |  \sqrt{4}, -\sqrt{4}
Compute $\gcd(12,18)$. => 6 :=  \gcd(12,18)  |  \text{gcd}(12,18)
What is 25% of 80? => 20 :=  25% of 80  |  0.25\cdot 80  |  0.25*80
What is $17 \bmod 5$? => 2 :=  17 \bmod 5  |  17 % 5  |  17 \pmod{5}
Convert $1011_2$ to base 10. => 11 :=  1011_2
Factor $x^2-9$. => (x-3)(x+3) :=  x^2-9  |  -9+x^2  |  x^{2} - 9
Complete the square in $1-4x+x^2$. => (x-2)^2-3 :=  x^2-4x+1  |  -4x+x^2+1  |  -4x+1+x^2
Find the area of a circle of radius 3. => 9\pi :=  \pi\cdot 3^2  |  3^2\pi  |  \pi 3^{2}
    |  3\cdot3\pi  |  3 \times 3 \pi  |  3*3\pi
Find the length of the vector $(1,2)$. => \sqrt{5} :=  \sqrt{1^2+2^2}  |  \sqrt{1+2^2}
Find $2\begin{pmatrix}1\\2\end{pmatrix}$. => \begin{pmatrix}2\\4\end{pmatrix} :=
    |  \begin{pmatrix}2\cdot1\\2\cdot2\end{pmatrix}  |  \begin{pmatrix}1+1\\2+2\end{pmatrix}
    |  \begin{pmatrix}2\\2+2\end{pmatrix}  |  \begin{pmatrix}2\\5-1\end{pmatrix}
Find $\int_0^1 e^x dx$. => e-1 :=  \int_0^1 e^x dx  |  e-2^0
Find the sum of the vectors $(1,2)$ and $(3,4)$. => (4,6) :=  (1,2)+(3,4)  |  (1+3,2+4)
Simplify $\sqrt{8}$, please. => 2\sqrt{2} :=  8^{1/2}  |  8^{\frac12}  |  8^{0.5}  |  8^(1/2)
    |  8^.5  |  8^{2/4}  |  \sqrt[2]{8}  |  8^{(1/2)}  |  8**(1/2)  |  8^{\frac{2}{4}}
Simplify $\sqrt[3]{54}$. => 3\sqrt[3]{2} :=  \sqrt[3]{54}  |  54^{1/3}  |  54^{\frac{2}{6}}
    |  8**0.5  |  8**(1/2)  |  1\cdot 8^{1/2}
Simplify $8^{1/2}$. => 2\sqrt{2} :=  \sqrt{8}  |  8^{0.5}
Factor the sum $x^2+3x+2$. => (x+1)(x+2) :=  x*x+3x+2  |  x\cdot x+3x+2  |  3x+2+x*x  |  xx+3x+2
Factor $x^3-1$. => (x-1)(x^2+x+1) :=  xxx-1  |  x*x*x-1
Expand $(x+1)^2$ now. => x^2+2x+1 :=  (x+1)(x+1)
Simplify x*x*x*x. => x^4 :=  x*x*x*x
Write seventeen in digits. => 17 :=  seventeen  |  Seventeen
Is one or two even? => 2 :=  two
Write $x \le 2$ in interval notation. => (-\infty,2] :=  x\le 2  |  2\ge x  |  x<=2
Simplify $\sqrt{1,100}$. => 10\sqrt{11} :=  \sqrt{1100}  |  \sqrt{1,100}  |  \sqrt{1{,}100}
Write $(1,2)$ as a column. => \begin{pmatrix}1\\2\end{pmatrix} :=  (1,2)
Simplify $6 \over 8$. => \frac{3}{4} :=  6 \over 8
""")  # noqa: RUF001
WRONG = table(r"""
17 :=  1+1=17  |  1+1 = 17  |  2*8=17  |  2^3=17  |  (1+1)=17  |  x = 1+1 = 17  |  1+1=8+9=17
    |  \frac{4}{3}+1 = 17  |  seventy  |  seventeen or eighteen  |  one seven  |  seventeen hundred
    |  2**3 = 17  |  (2)(3) = 17  |  \sqrt 16 = 17  |  0.5+1 = 17 cookies  |  17 - 12 = 17 \pmod{30}
    |  17 plus one  |  17 squared  |  17 minus two  |  17 times  |  17 halves  |  17 over four
    |  17 fifths  |  17 ninths  |  \text{17 eighths}  |  17 twelfths  |  17 sixteenths
    |  seventeenth  |  minus seventeen  |  ten plus seven  |  twenty-seven  |  hundred and seventeen
1 :=  1 half  |  1 third  |  \text{1 sixth}  |  1 billionth
-17 :=  seventeen
17.5 :=  seventeen
17\% :=  seventeen
\frac{17}{2} :=  seventeen
20 :=  twenty-one  |  two zero
60^\circ :=  60 radians  |  60 rad  |  60\text{ rad}  |  60 cm
60 radians :=  60°  |  60 degrees
5 lb :=  £5  |  5 kg  |  \$5
£5 :=  5 lb  |  €5  |  5 dollars
\frac{3}{4} :=  4 \over 3  |  1+3 \over 4  |  3 \over 44
34 :=  3 \over 4
\frac{7}{4} :=  1+3 \over 4
[-1,1] :=  -1,1  |  1,-1  |  \{-1,1\}  |  \pm 1  |  -1 and 1  |  x=-1,x=1  |  -1<x<1  |  |x|\le 1
[-\sqrt2,\sqrt2] :=  -\sqrt2,\sqrt2
(-\infty,2] :=  x<2  |  x\ge 2  |  2\le x  |  x\le 3  |  x\le -2  |  2x\le 4  |  x\le 1+1  |  x\le y
    |  x\lt2  |  x\le 2, x\ge 3
(-\infty,2) :=  x\leqslant 2  |  x<2, x>3
[2,\infty) :=  x>2  |  x\le2
(1,2) :=  1<x<2
1<x<2 :=  2<x<1  |  1>x>2  |  2>x<1  |  1<x<3  |  2\ge x>1  |  2>y>1  |  x>1
x>3 :=  x<3  |  3>x  |  y>3
\begin{pmatrix}1\\2\end{pmatrix} :=  (2,1)  |  (1,2,3)  |  1,2  |  \{1,2\}  |  [1,2]  |  (2,1)^T
    |  (2/2,2)  |  (1,4/2)
    |  (1,2)^2  |  \begin{pmatrix}1&2\end{pmatrix}  |  [[1,2]]  |  [[2],[1]]  |  (1+0,2)  |  12
    |  (1,1+1)  |  (1,2),(3,4)  |  \begin{vmatrix}1\\2\end{vmatrix}  |  \binom{1}{2}
13 :=  answer 12 or 13  |  14 = x  |  The answer is 12 or 13  |  12, 13  |  13, 12
    |  \{12,13\}  |  12 or 13  |  12 \text{ or } 13  |  x=12, x=13
    |  12; 13  |  [12,14]  |  (12,14)  |  \mathbb{R}  |  12 \le x \le 14  |  13 = 12  |  12=13
    |  13 13  |  12 13  |  13\\12  |  \frac{13}{1}, 12  |  \pm 13  |  x  |  13 \cup 12
    |  \text{13 or 12}  |  nan  |  oo  |  13 \text{ and } 12  |  13 / 12  |  13 (or 12)
    |  13 \text{ or more}  |  x^2=13  |  2x=13  |  -13  |  13!  |  13x  |  13i  |  13\pi
    |  13 per cent  |  13 million  |  13 \text{ dozen}  |  1 3  |  ,13  |  1\,3  |  1\quad 3
    |  1\qquad3  |  1~3
    |  1\ 3  |  1\;3  |  1\:3  |  1\!3  |  1\thinspace3  |  1\, \,3  |  $1$ $3$  |  $1$$3$  |  $1$3
    |  \(1\)\(3\)  |  1°3  |  1^\circ 3  |  1€3  |  1\$3  |  1\left3  |  1\displaystyle3
    |  \text{1}\text{3}  |  1\text{ }3
1000 :=  1 000  |  1~000  |  1\ 000  |  1\;000  |  1\:000  |  1\!000  |  1\quad000  |  $1$,$000$
    |  1,$000$  |  1 ,000  |  1\,00  |  1{,}00  |  1\,0000  |  01\,000
1234567 :=  1234\,567  |  1234{,}567  |  1\,234567  |  1\,234\;567
-1.3 :=  -1\,.3  |  -1.\,3  |  -1 .3  |  -1. 3  |  -$1$.$3$
0, 50 :=  0\,050
13\pi :=  1\,3\pi  |  1~3\pi  |  1\quad3\pi
\sqrt{13} :=  \sqrt{1\,3}  |  \sqrt{1~3}
\frac{x+13}{2} :=  \frac{x+1\,3}{2}
(1,23) :=  (1,2\,3)  |  (1,2~3)
90^\circ,180^\circ :=  90180
1\pm\sqrt{3} :=  1+\sqrt{3}  |  1\pm\sqrt{2}  |  1+\sqrt3, 1-\sqrt2
\sqrt{2} :=  \sqrt{2},\sqrt{3}  |  \sqrt{3},\sqrt{2}  |  \sqrt{3} \text{ or } \sqrt{2}
    |  x=\sqrt{3} \text{ or } x=\sqrt{2}  |  \sqrt{2}=\sqrt{3}  |  \pm\sqrt{2}
    |  \{\sqrt{2}\,\sqrt{3}\}  |  \mathbb{R}  |  1<x<2  |  \sqrt{2}\cup\sqrt{3}
    |  \sqrt{2}\sqrt{3}  |  1.4
\begin{pmatrix}4\\6\end{pmatrix} :=
    |  \begin{pmatrix}1\\1\end{pmatrix}+\begin{pmatrix}3\\5\end{pmatrix}
    |  \begin{pmatrix}1&1\\0&3\end{pmatrix}\begin{pmatrix}2\\2\end{pmatrix}
3\sqrt{2} :=  \sqrt{2}\int_0^3 dx  |  \max(1,3)\sqrt{2}  |  \sqrt{2}\log_2 8
    |  \sqrt{2}\log_{10} 1000  |  \sqrt{2}\ln(e^3)
    |  6\sin(\frac{\pi}{6})\sqrt{2}  |  \frac{18\arcsin(\frac{1}{2})}{\pi}\sqrt{2}
    |  \binom{3}{1}\sqrt{2}  |  \frac{3!}{2}\sqrt{2}  |  \sqrt{2}\lfloor 3.5\rfloor  |  3^1\sqrt{2}
    |  (1+2)\sqrt{2}  |  \frac{6}{2}\sqrt{2}
\{1,2\} :=  \{1,2,3\}  |  \{1\}  |  1  |  12  |  \mathbb{Z}  |  \{1,2\}\cup\{3\}  |  [1,2]
    |  1,2,3
1,2 :=  1  |  2  |  12  |  1,2,3  |  \{1,2,3\}  |  1.2  |  1/2
(1,2) :=  (2,1)  |  [1,2]  |  (1,2) \text{ or } (2,1)  |  (1,2),(2,1)  |  (1,1+1)
0, 100 :=  100  |  0100  |  (0,100,1)
1, 100 :=  1100  |  1,100,0
(1, 100) :=  (1100)  |  1100
\{1, 100\} :=  \{1100\}  |  1100
1100 :=  1, 100  |  (1,100)  |  \{1,100\}  |  1,1000
0.00000002 :=  0.00000001  |  0  |  0.0000000201
1/2^98 :=  1/2^99  |  0  |  \frac{1}{2^{99}}  |  2^{-99}
10^{-9} :=  10^{-10}  |  0
1-\frac{1}{2^{98}} :=  1-\frac{1}{2^{99}}  |  1-2^{-99}  |  1
x-\frac{1}{2^{98}} :=  x-\frac{1}{2^{99}}  |  x
(1-\frac{1}{2^{98}},1) :=  (1-\frac{1}{2^{99}},1)  |  (1,1)
1, 100\pi :=  1100\pi
(1,100\pi) :=  1100\pi
2^{-98} :=  2^{-99}
\frac{\pi}{2^{60}} :=  \frac{\pi}{2^{61}}
e^{-40} :=  e^{-41}  |  0
B :=  A  |  A, B  |  A, B, C, D  |  ABCD  |  A or B  |  (A)(B)  |  all of the above  |  x
    |  Option A  |  options A and B  |  answer A or B  |  option (A)(B)  |  b or c
    |  \text{A or B}  |  (A) (B)
A, C :=  A  |  A, B, C  |  A, B  |  A, B, C, D  |  ABCD
listen :=  silent
Oslo :=  solo
\text{ABC} :=  CAB
50\% :=  5  |  500%  |  0.05
0.5 :=  50  |  0.5%  |  5
€5 :=  £5  |  \$5  |  ₩5
5\text{ m} :=  5\text{ cm}  |  5 cm  |  5 m²  |  5\text{ m}^2  |  5 feet  |  5\text{ m/s}
12 cm :=  12 metres  |  12 millimetres
12 cm :=  12 cm^2  |  12 cm²  |  12 \text{ cm}^2  |  12 m  |  12 square centimeters  |  12 hours
12\text{ cm}^2 :=  12 cm  |  12 cm³  |  12 m²  |  12 square meters  |  12\text{ cm}^3
    |  12 cubic centimeters  |  \text{12 cm}
12 cm² :=  12 cm  |  12 cm³  |  12 m²
5\text{ hours} :=  5 minutes  |  5 min  |  5 days  |  5\text{ s}
60\text{ km/h} :=  60 mph  |  60 m/s  |  60 km
5\text{ kg} :=  5 g  |  5 pounds
\$30 :=  30 cents  |  30¢  |  €30
€5 :=  5 dollars  |  \$5  |  $5
$5 :=  €5  |  5 euros  |  £5  |  5 cents
2\pi\text{ cm} :=  2π m  |  2\pi\text{ cm}^2  |  2
20^\circ\text{C} :=  20°F
3h :=  3  |  3 \text{ cm}  |  3g
12 hundred :=  12
6\text{ ft }2\text{ in} :=  6 ft 2 m  |  2 in  |  62 in
12 :=  12 hundred  |  12²  |  12^2  |  12x^2
3:30 \text{ PM} :=  3:30 \text{ AM}
101_2 :=  101_3  |  101_{10}  |  5_{10}  |  110_2  |  5  |  101.0
2A_{16} :=  2A_{15}  |  2B_{16}
3:4 :=  6/8  |  \frac{6}{8}  |  4/3
3,4 :=  \frac{7\pm1}{2}  |  \frac{7\mp 1}{2}
12:30 :=  2/5  |  0.4  |  12/30  |  1230  |  12.30  |  30:12
x=1,y=2 :=  x=2,y=1  |  y=1,x=2  |  (2,1)  |  x=1  |  x=1,y=2,z=3  |  2,1
x=\sqrt{2}, y=1 :=  x=1,y=\sqrt{2}
\emptyset :=  \{\emptyset\}  |  0  |  \{0\}
[0,1) :=  0,1  |  [0,1]  |  (0,1)
[0,\infty) :=  [0,\infty]  |  (0,\infty)
7 :=  7...  |  7\ldots  |  7…  |  7..
x^2+x :=  x^2  |  x^2+x+1  |  x^2+x=0, 1  |  x^2+x \text{ or } x
""")


LED_TO = table(r"""
36 :=  12*3 = 36  |  12*3 = 36 cookies  |  40 - 4 = 36 \text{ apples}  |  6^2 = 36  |  6**2 = 36
    |  72/2 = 36  |  1.5 \times 24 = 36  |  (12)(3) = 36  |  (9)(8)/2 = 36  |  $12 \cdot 3 = 36$
    |  20+16 = 12*3 = 36  |  \frac{72}{2} = 36  |  6 \cdot \sqrt 36 = 36  |  3^2+3^3 = 36
-3 :=  17 - 20 = -3
4 :=  \sqrt 16 = 4  |  \sqrt{16} = 4  |  x = \sqrt 16 = 4
5 :=  17 - 12 = 5 \pmod{12}  |  3+2=5 cm  |  -5+10 = 5
\frac{1}{2} :=  1/4 + 1/4 = 1/2  |  1 - 0.5 = \frac{1}{2}  |  0.2 + 0.3 = 50\%
1000000 :=  1000 \times 1000 = 1 million  |  1000 \times 1000 = 1,000,000
""")


@pytest.mark.parametrize("reference", LED_TO)
def test_true_work_before_the_value_is_right(reference: str) -> None:
    assert [a for a in LED_TO[reference] if math_verdict(a, reference) != "right"] == []


@pytest.mark.parametrize(
    "tower", ["3^{9^{9^9}}", "9**9**9**9", "9^9^9", "((9^99)^99)^99", "9^{999999999}"]
)
def test_a_tower_of_powers_takes_no_time(tower: str) -> None:
    ask("1", "1")
    started = time.monotonic()
    assert math_verdict(f"{tower} = {tower}+1 = 17", "17") in ("right", "wrong")
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("reference", RIGHT)
def test_equal_forms_are_right(reference: str) -> None:
    answers = [reference, *RIGHT[reference]]
    assert [a for a in answers if math_verdict(a, reference) != "right"] == []


def test_few_equal_forms_are_rejected_among_many() -> None:
    assert sum(map(len, RIGHT.values())) > 200


@pytest.mark.parametrize("case", COPIES)
def test_what_is_copied_from_the_question_is_wrong(case: str) -> None:
    asked, reference = case.split(" => ")
    assert [a for a in COPIES[case] if math_verdict(a, reference, asked) != "wrong"] == []
    assert math_verdict(reference, reference, asked) == "right"


@pytest.mark.parametrize("reference", WRONG)
def test_other_answers_and_lists_of_candidates_are_wrong(reference: str) -> None:
    answers = [*WRONG[reference], f"{reference}\n{WRONG[reference][0]}"]
    assert [a for a in answers if math_verdict(a, reference) != "wrong"] == []


NOT_COPIED = [
    (r"Which is $x^2-1$? (A) $(x-1)(x+1)$ (B) $x-1$", "(x-1)(x+1)", "(x+1)(x-1)"),
    ("Is 5 or 7 larger? Give the number.", "7.0", "7"),
    ("A coin falls on heads with probability 1/2. With what probability on tails?", "1/2", "0.5"),
    (r"A coin has probability \frac{1}{2}. And tails?", r"\frac{1}{2}", "1/2"),
    (r"Given $\sin x = \frac{\sqrt{3}}{2}$, find $\tan 60^\circ$.", r"\sqrt{3}", r"\sqrt3"),
    (r"Let $x+1$ be a factor. Factor $x^2+3x+2$.", "(x+1)(x+2)", "(x+2)(x+1)"),
    ("Of 50 people 25 came. What percent?", "50%", "50"),
    *(("Which of (A) 3 (B) 4 is even?", "B", a) for a in ("(B)", "(B) 4", r"\textbf{(B)}\ 4")),
    ("He pays 1,000 dollars twice. How much?", "2000", "2,000"),
    (r"Simplify $\sqrt{8}$.", r"2\sqrt{2}", r"2\cdot\sqrt{2}"),
    ("Write 0.5 as a fraction.", r"\frac{1}{2}", "1/2"),
    (r"Write 1.2\times10^8 as a decimal.", "120000000", "120,000,000"),
    *(("What is 3*4+5?", "17", a) for a in ("3*4+5 = 17", "5+4×3=17", "3*4+5=12+5=17", "17.")),  # noqa: RUF001
    ("Factor x^2 + 3x + 2.", "(x+1)(x+2)", "(2+x)(1+x)"),
    ("Factor $x^2+2x+1$.", "(x+1)^2", "(x+1)(x+1)"),
    ("Simplify $x^2+x^2$.", "2x^2", "2xx"),
    (r"Simplify $\sqrt{8}$.", r"2\sqrt{2}", r"2\cdot 2^{1/2}"),
    (r"Write $5^{1/2}$ with a root.", r"\sqrt{5}", r"\sqrt5"),
    ("Expand (x+1)(x+2).", "x^2+3x+2", "2+3x+x^2"),
    ("Negate 2x-3, if 2x - 3 = y.", "3-2x", "-2x+3"),
    ("Double x/2 + y.", "x+2y", "2y+x"),
]


@pytest.mark.parametrize(("asked", "reference", "answer"), NOT_COPIED)
def test_what_only_looks_copied_is_right(asked: str, reference: str, answer: str) -> None:
    assert math_verdict(answer, reference, asked) == "right"


WRAPPINGS = [
    *(
        r"\frac{E}{1}",
        r"\dfrac{E}{1.0}",
        "-(-(E))",
        "--E",
        r"1\cdot (E)",
        r"1\cdot E",
        "1(E)",
        "1.0(E)",
        "E+0",
    ),
    "0+E", "E+0x", "E-1+1", "(E)", r"\left(E\right)", "[E]", r"\text{E}", r"\boxed{E}", "(E)^1",
    "((E)^{-1})^{-1}", r"\frac{1}{\frac{1}{E}}", r"\frac{-(E)}{-1}", r"\frac{2(E)}{2}", "2(E)/2",
    "(-1)^2(E)", r"-1\cdot-(E)", r"\frac{2}{2}(E)", r"E\cdot 5^0", r"\sqrt[1]{E}", "+(E)",
]  # fmt: skip
"""What changes nothing about E."""
ASKED = [
    (r"Simplify $\sqrt{8}$.", r"2\sqrt{2}", r"\sqrt{8}"),
    (r"Simplify \(\sqrt{12} + \sqrt{27}\).", r"5\sqrt{3}", r"\sqrt{12}+\sqrt{27}"),
    (r"Factor $x^2 + 3x + 2$.", "(x+1)(x+2)", "x^2+3x+2"),
    (r"Simplify $f(x) = \frac{x^2-1}{x-1}$.", "x+1", r"\frac{x^2-1}{x-1}"),
    ("Expand (x+1)^2, please.", "x^2+2x+1", "(x+1)^2"),
]


@pytest.mark.parametrize(("asked", "reference", "copy"), ASKED)
def test_a_copy_in_a_wrapping_that_does_nothing_is_wrong(
    asked: str, reference: str, copy: str
) -> None:
    answers = [wrapping.replace("E", copy) for wrapping in ("E", *WRAPPINGS)]
    assert [a for a in answers if math_verdict(a, reference, asked) != "wrong"] == []
    wrapped = [wrapping.replace("E", reference) for wrapping in ("(E)", r"\frac{E}{1}", "E+0")]
    assert [a for a in wrapped if math_verdict(a, reference, asked) != "right"] == []


@pytest.mark.parametrize(
    ("asked", "reference", "answer"),
    [
        (r"A side is $\frac{\sqrt{3}}{2}$. Three of them?", r"\frac{3\sqrt{3}}{2}", "3\\cdot E"),
        (r"A side is $\sqrt{5}+1$. The sum with 2?", r"3+\sqrt{5}", r"\sqrt{5}+3"),
        (r"Let $8+2\pi$ be one. Add 10.", r"2\pi+18", r"18+2\pi"),
        (r"Which is larger, $2\sqrt{2}$ or $\sqrt{7}$?", r"2\sqrt{2}", r"\frac{2\sqrt{2}}{1}"),
        (r"Divide $x^2+x$ by $x$ and add $x+1$.", "2x+2", "x+1+x+1"),
        (r"Write $\sqrt{8}$ and $\sqrt{18}$ as one.", r"5\sqrt{2}", r"5\cdot\sqrt{2}"),
    ],
)
def test_an_expression_of_the_question_may_stand_in_a_right_answer(
    asked: str, reference: str, answer: str
) -> None:
    answer = answer.replace("E", r"\frac{\sqrt{3}}{2}")
    assert math_verdict(answer, reference, asked) == "right"


# -- whole rewards, with questions of a file -----------------------------------------------------

OWN = registered(
    ["outcome", "retool", "zerotir", "artist_math",
     "otc_ppo", "otc_ppo_additive", "otc_grpo", "otc_grpo_additive"], REWARDS
)  # fmt: skip
RELEASED = registered(["torl"], REWARDS)
"""Rewards that ask the released scorer, which takes copied expressions."""


def sums() -> list[tuple[str, str]]:
    """A hundred expressions and their values."""
    made = [
        (f"{a} + {b}", str(a + b)) for a, b in zip(range(11, 36), range(90, 40, -2), strict=True)
    ]
    made += [(f"{a} \\cdot {a + 3}", str(a * (a + 3))) for a in range(11, 36)]
    made += [(f"2^{{{n}}}", str(2**n)) for n in range(5, 30)]
    return made + [(f"\\frac{{{7 * n}}}{{{7}}} - {n // 2}", str(n - n // 2)) for n in range(20, 45)]


@pytest.mark.parametrize("name", OWN + RELEASED)
def test_the_boxed_expression_of_a_question_of_a_file_does_not_pay(
    name: str, tmp_path: Path
) -> None:
    rows = [{"problem": f"Compute ${e}$.", "answer": value} for e, value in sums()]
    path = tmp_path / "math.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = load_question_tasks(path, "python_tool")
    assert len(tasks) == 100
    reward = get_reward(name)
    tasks = tasks[::20] if name in RELEASED else tasks
    paid = [
        score(reward, task, play(rf"</think><answer>\boxed{{{task.turns[0].user[9:-2]}}}</answer>"))
        for task in tasks
    ]
    copied = sum(done.parts["correct"] for done in paid)
    assert copied > 0 if name in RELEASED else copied == 0
    honest = [
        score(reward, task, play(rf"</think><answer>\boxed{{{task.world['answer']}}}</answer>"))
        for task in tasks
    ]
    assert all(done.parts["correct"] == 1 for done in honest)


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_scorer_that_takes_copies_says_so_in_its_recipe(name: str) -> None:
    page = recipe_file(name).with_name("README.md").read_text(encoding="utf-8")
    fooled = " ".join(page.partition("## What fools it")[2].split())
    assert "boxed sum of the question is right" in fooled and "`retool`" in fooled


NOTHING = [
    "",
    " ",
    "?",
    r"\boxed{}",
    r"\boxed{ }",
    "<answer></answer>",
    r"\boxed{?}",
    "13",
    "#### 13",
]
DROPPED = ["The final answer is 13", "Final answer: 13", r"boxed{13}", "<answer>13", r"\boxed{13"]


@pytest.mark.parametrize("name", OWN + RELEASED)
def test_answering_nothing_or_without_the_form_does_not_pay(name: str) -> None:
    reward, task = get_reward(name), question("13")
    for text in NOTHING + DROPPED:
        assert score(reward, task, play(text)).parts["correct"] == 0, text


@pytest.mark.parametrize("name", OWN + RELEASED)
def test_only_one_box_counts(name: str) -> None:
    reward, task = get_reward(name), question("13")
    many = "".join(rf"<answer>\boxed{{{n}}}</answer>" for n in range(10, 20))
    assert score(reward, task, play(many)).parts["correct"] == 0
    assert score(reward, task, play(r"\boxed{13} or \boxed{14}")).parts["correct"] == 0


SLOW = [
    "9^{9^{9^9}}",
    "999999999!",
    r"\binom{999999999}{500000000}",
    r"\sum_{n=1}^{10^{12}} n",
    "(x+1)^{99999}",
    "1" * 900,
    r"\frac{1}{" * 100 + "2" + "}" * 100,
    "(" * 900,
    "1," * 450,
    r"\text{" * 150,
    "\\sqrt" * 150,
    " " * 900 + "1",
    "1" + " " * 9_000 + "a",
    "*" * 9_000,
    "a=" * 400,
    r"\approx" * 100,
    "\ud800",
    "\x00",
    "1e999999999",
    "0." + "\\overline{9}" * 50,
]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((n, 1) for n in registered(("outcome", "torl", "retool", "otc_grpo"), REWARDS)),
        *slow(*((n, 10**7) for n in RELEASED)),
    ],
)
def test_slow_answers_to_a_number_are_wrong_at_once(name: str, size: int) -> None:
    reward, task = get_reward(name), question("13")
    for bomb in SLOW if size == 1 and name != "torl" else ["1+", "\\text{", "{", "x", ","]:
        text = rf"<answer>\boxed{{{bomb * (size // len(bomb) or 1)}}}</answer>"
        began = time.process_time()
        assert score(reward, task, play(text)).parts["correct"] == 0
        assert time.process_time() - began < (3 if size > 1 else 1), bomb[:20]


@pytest.mark.parametrize(
    "reference", ["x+1", "1, 2", r"\sqrt{2}", "(1, 2)", r"\text{yes}", "3:4", "13"]
)
def test_no_answer_raises(reference: str) -> None:
    for odd in [
        *SLOW[5:],
        "=",
        "==",
        "a=",
        ":",
        "\\",
        "\\{",
        "()",
        "[]",
        ";",
        ",",
        "%",
        "/",
        "1/0",
    ]:
        assert math_verdict(odd, reference) not in ("right", None), odd


# -- where the answer stands, and text -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed 5", "5"),
        (r"\boxed5", "5"),
        (r"\fbox 5", "5"),
        (r"$\boxed 42$.", "42"),
        (r"so \(\boxed -3\)", "-3"),
        (r"\boxed{7} and \boxed 5", "5"),
        (r"\boxed 5 and \boxed{7}", "7"),
        (r"\boxed \frac{1}{2}", r"\frac{1}{2}"),
        (r"\boxed A.", "A"),
        (r"\boxed €5", "€5"),
        (r"$\boxed 13°$", "13°"),
        (r"\boxed\frac12", r"\frac12"),
        (r"\boxed\sqrt2.", r"\sqrt2"),
        (r"\boxed\pi", r"\pi"),
        (r"\boxed\pix", None),
        *((rf"\boxed {sign}.", sign) for sign in ["½", "2⅝", "√12", "π", "−5", "１３"]),  # noqa: RUF001
        (r"\boxed €5x", None),
        (r"\boxed 1,234, so", "1,234"),
        (r"\boxed{13}, given in \boxed form", "13"),
        (r"put it in \boxed.", None),
        (r"\boxed 3x", None),
        (r"\boxed 1.5x", None),
    ],
)
def test_a_box_without_braces_is_read(text: str, answer: str | None) -> None:
    assert final_answer(text, ("boxed",)) == answer


@pytest.mark.parametrize(
    ("answer", "reference", "same"),
    [
        *((text, text, True) for text in ("A", "a", "The", "An", "The The", "The Who", "?", "C++")),
        ("a", "A", True),
        (" A ", "A", True),
        *((text, "A", True) for text in ("A.", "(A)", "'A'", "\u201cA\u201d", "*a*")),
        ("the.", "The", True),
        ("an.", "A", False),
        ("the who", "The Who", True),
        ("Who", "The Who", True),
        ("O\u2019Brien", "O'Brien", True),
        ("Ana Vel\u00e1zquez", "Ana Vela\u0301zquez", True),
        ("B", "A", False),
        ("the", "A", False),
        ("The", "An", False),
        ("", "A", False),
        ("A B C D", "A", False),
        ("", "", False),
    ],
)
def test_two_equal_texts_are_equal(answer: str, reference: str, same: bool) -> None:
    assert same_text(answer, reference) is same
    task = question(reference or "?", "search")
    if reference:
        assert judge_answer(task, f"<answer>{answer}</answer>").correct is same


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,100", "1100"), ("1,234,567.5", "1234567.5"), ("-1,100", "-1100"), ("999,999", "999999")]
    + [(t, None) for t in ("1, 100", "0,100", "100,0", "(1,100)", r"\{1,100\}", "1,10", "1,1000")]
    + [(t, None) for t in ("1000,100", "01,100", "1 100", "1,100,0", ",100", "1,,100")]
    + [("1{,}100", "1100"), (r"1\,100", "1100"), (r"1\,100.5", "1100.5"), (r"\$1,\!100", "1100")]
    + [(t, None) for t in (r"1\;100", r"1\ 100", "1~100", "0{,}100", r"1\,1000", r"1000\,100")]
    + [(t, None) for t in (r"1\,100{,}5", r"1\,100\,5", "$1$,$100$", "1°,100°")],
)
def test_thousands_are_whole_groups_without_blanks(text: str, value: str | None) -> None:
    number = read_number(text)
    assert (None if number is None else float(number.value)) == (value and float(value))


def test_an_option_with_its_text_is_that_option_alone() -> None:
    for asked in ("Which is even? (A) 3 (B) 4 (C) 5", "Which is even? A) 3 B) 4 C) 5"):
        for wrong in ("(A) 3", "(B) 5", "(B) 4 (C) 5", "(A) 3 (B) 4", "B) 4 C) 5", "B) 4 or A) 3"):
            assert math_verdict(wrong, "B", asked) == "wrong", wrong


def test_a_percent_sign_is_read_by_the_reference_and_the_question() -> None:
    percent = "What percent of 4 is 2?"
    for answer, reference, asked, right in [
        ("50%", "50%", "", True),
        ("50", "50%", "", True),
        ("0.5", "50%", "", True),
        ("0.5%", "50%", "", False),
        ("50%", "0.5", "", True),
        ("50%", "50", "", False),
        ("50%", "50", percent, True),
        ("50%", "0.5", percent, False),
        ("0.5%", "0.5", percent, True),
        ("50 pct", "50", "", False),
        ("50 pct", "0.5", "", True),
        ("50 pct.", "50%", "", True),
        ("50%", "50", "Write 1/2 as percent.", True),
        ("50%", "50", "Round it to the nearest tenth of a percent.", True),
        ("50%", "50", "What is 5 times 10? Not 20% of it.", False),
    ]:
        assert (math_verdict(answer, reference, asked) == "right") is right, (answer, reference)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("1/2^98", "1/2^99"), (r"\frac{1}{2004!}", r"\frac{1}{2006!}"), ("10^{-20}", "0")],
)
def test_what_is_small_beside_one_is_not_equal(gold: str, answer: str) -> None:
    assert ask(gold, answer) == "wrong"
    assert ask(gold, answer, "bare") in ("right", "wrong")  # as the released scorers ask
    assert ask(gold, gold) == "right"
