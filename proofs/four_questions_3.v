(* Page 3, "Four questions to a proof" (notebooks/path_decomposition/four_questions.ipynb),
   continued. Proposition 3.7 (No triangle inequality). *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import identities.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section QuasiNorm.
Variables (R : rcfType) (n d : nat).
(* The matrices have n + 1 rows and d + 1 columns, at least one of each. *)
Local Notation mat := 'M[R]_(n.+1, d.+1).
Definition col_sum (A : mat) j := \sum_i `|A i j|.
Definition row_sum (A : mat) i := \sum_j `|A i j|.
Definition norm1 A := \big[Num.max/0]_j col_sum A j.            (* largest absolute column sum *)
Definition normoo A := \big[Num.max/0]_i row_sum A i.           (* largest absolute row sum *)
Definition composite A := Num.sqrt (norm1 A * normoo A).
Definition nd : R := (n.+1 * d.+1)%:R.
Definition K : R := 2%:R^-1 * (Num.sqrt (Num.sqrt nd) + (Num.sqrt (Num.sqrt nd))^-1).

Lemma max_ge (I : finType) (f : I -> R) i : f i <= \big[Num.max/0]_j f j.
Proof.
have : i \in index_enum I by apply: mem_index_enum.
elim: (index_enum I) => // j r IH; rewrite big_cons le_maxr inE.
by case/predU1P=> [->|/IH ->]; rewrite ?lexx ?orbT.
Qed.
Lemma max_le (I : finType) (f : I -> R) c : 0 <= c -> (forall i, f i <= c) ->
  \big[Num.max/0]_j f j <= c.
Proof. by move=> c0 fc; elim/big_rec: _ => // i x _ xc; rewrite le_maxl fc. Qed.
Lemma max_ge0 (I : finType) (f : I -> R) : 0 <= \big[Num.max/0]_j f j.
Proof. by elim/big_rec: _ => // i x _ x0; rewrite le_maxr x0 orbT. Qed.

Lemma norm1D A B : norm1 (A + B) <= norm1 A + norm1 B.
Proof.
apply: max_le => [|j]; first by rewrite addr_ge0 ?max_ge0.
apply: le_trans (ler_add (max_ge _ j) (max_ge _ j)); rewrite -big_split.
by apply: ler_sum => i _; rewrite mxE ler_norm_add.
Qed.
Lemma normooD A B : normoo (A + B) <= normoo A + normoo B.
Proof.
apply: max_le => [|i]; first by rewrite addr_ge0 ?max_ge0.
apply: le_trans (ler_add (max_ge _ i) (max_ge _ i)); rewrite -big_split.
by apply: ler_sum => j _; rewrite mxE ler_norm_add.
Qed.

(* Step 1: shapes. *)
Lemma shape1 A : norm1 A <= n.+1%:R * normoo A.
Proof.
apply: max_le => [|j]; first by rewrite mulr_ge0 ?ler0n ?max_ge0.
rewrite mulr_natl -[X in _ *+ X](card_ord n.+1) -sumr_const; apply: ler_sum => i _.
by apply: le_trans (max_ge _ i); rewrite /row_sum (bigD1 j) //= ler_addl sumr_ge0.
Qed.
Lemma shapeoo A : normoo A <= d.+1%:R * norm1 A.
Proof.
apply: max_le => [|i]; first by rewrite mulr_ge0 ?ler0n ?max_ge0.
rewrite mulr_natl -[X in _ *+ X](card_ord d.+1) -sumr_const; apply: ler_sum => j _.
by apply: le_trans (max_ge _ j); rewrite /col_sum (bigD1 i) //= ler_addl sumr_ge0.
Qed.

(* K^2 = (sqrt nd + 1/sqrt nd + 2) / 4, so 4 K^2 - 2 = sqrt nd + 1/sqrt nd. *)
Local Notation r := (Num.sqrt nd).
Lemma r_gt0 : 0 < r. Proof. by rewrite sqrtr_gt0 ltr0n. Qed.
Lemma rV : r * r^-1 = 1. Proof. by rewrite mulfV // gt_eqF // r_gt0. Qed.
Lemma K_sq : 4%:R * K ^+ 2 = r + r^-1 + 2%:R.
Proof.
set q := Num.sqrt r; have q0 : 0 < q by rewrite sqrtr_gt0 r_gt0.
have qq : q * q^-1 = 1 by rewrite mulfV // gt_eqF.
have h : 2%:R * 2%:R^-1 = 1 :> R by rewrite mulfV // pnatr_eq0.
have -> : 4%:R * K ^+ 2 =
    (2%:R * 2%:R^-1) * (2%:R * 2%:R^-1) * (q ^+ 2 + q^-1 ^+ 2 + 2%:R * (q * q^-1)).
  by rewrite /K -/q; ident.
by rewrite h qq exprVn sqr_sqrtr ?(ltW r_gt0) // !mulr1 mul1r.
Qed.
Lemma K_minus : r + r^-1 + 2%:R - 4%:R = (r - 1) ^+ 2 / r.
Proof.
transitivity (r * (r * r^-1) + r^-1 - 2%:R * (r * r^-1)); last by ident.
by rewrite rV; ident.
Qed.
Lemma K_ge0 : 0 <= K.
Proof. by rewrite mulr_ge0 ?invr_ge0 ?ler0n // addr_ge0 ?invr_ge0 ?sqrtr_ge0. Qed.
Lemma K_ge1 : 1 <= K ^+ 2.
Proof.
rewrite -(ler_pmul2l (ltr0n R 4)) K_sq mulr1 -subr_ge0 K_minus.
by rewrite divr_ge0 ?sqr_ge0 // ltW ?r_gt0.
Qed.

(* Step 2. a, a' are the largest column and row sums of A; b, b' those of B. *)
Lemma cross (a a' b b' : R) : 0 <= a -> 0 <= a' -> 0 <= b -> 0 <= b' ->
  a <= n.+1%:R * a' -> a' <= d.+1%:R * a -> b <= n.+1%:R * b' -> b' <= d.+1%:R * b ->
  a * b' + b * a' <= (r + r^-1) * (Num.sqrt (a * a') * Num.sqrt (b * b')).
Proof.
move=> a0 a'0 b0 b'0 aa' a'a bb' b'b.
have nd0 : 0 < nd by rewrite ltr0n.
pose x := a * b'; pose y := b * a'.
have x0 : 0 <= x by rewrite mulr_ge0. have y0 : 0 <= y by rewrite mulr_ge0.
have xy : x <= nd * y.
  have -> : nd * y = (n.+1%:R * a') * (d.+1%:R * b) by rewrite /y /nd natrM; ident.
  exact: ler_pmul.
have yx : y <= nd * x.
  have -> : nd * x = (n.+1%:R * b') * (d.+1%:R * a) by rewrite /x /nd natrM; ident.
  exact: ler_pmul.
have -> : Num.sqrt (a * a') * Num.sqrt (b * b') = Num.sqrt x * Num.sqrt y.
  rewrite -sqrtrM ?mulr_ge0 // -sqrtrM // /x /y; congr Num.sqrt; ident.
pose u := Num.sqrt x; pose v := Num.sqrt y; rewrite -/u -/v.
have u0 : 0 <= u := sqrtr_ge0 x. have v0 : 0 <= v := sqrtr_ge0 y.
have ux : x = u ^+ 2 by rewrite sqr_sqrtr. have vy : y = v ^+ 2 by rewrite sqr_sqrtr.
have uv : u <= r * v by rewrite -sqrtrM ?(ltW nd0) // ler_wsqrtr.
have vu : v <= r * u by rewrite -sqrtrM ?(ltW nd0) // ler_wsqrtr.
rewrite -/x -/y ux vy -subr_ge0.
have -> : (r + r^-1) * (u * v) - (u ^+ 2 + v ^+ 2) = (r * v - u) * (r * u - v) / r.
  transitivity (r * (r * r^-1) * (u * v) - (r * r^-1) * (u ^+ 2 + v ^+ 2) + u * v * r^-1).
    by rewrite rV; ident.
  by ident.
by rewrite divr_ge0 ?(ltW r_gt0) // mulr_ge0 ?subr_ge0.
Qed.

(* (3.10). *)
Theorem triangle A B : composite (A + B) <= K * (composite A + composite B).
Proof.
have K0 := K_ge0.
have cA := sqrtr_ge0 (norm1 A * normoo A); have cB := sqrtr_ge0 (norm1 B * normoo B).
rewrite -(ger0_norm (mulr_ge0 K0 (addr_ge0 cA cB))) -sqrtr_sqr; apply: ler_wsqrtr.
apply: le_trans (ler_pmul (max_ge0 _) (max_ge0 _) (norm1D A B) (normooD A B)) _.
have sq M : composite M ^+ 2 = norm1 M * normoo M by rewrite sqr_sqrtr // mulr_ge0 ?max_ge0.
have cr : norm1 A * normoo B + norm1 B * normoo A <= (r + r^-1) * (composite A * composite B).
  by apply: cross; rewrite ?max_ge0 ?shape1 ?shapeoo.
have := sq B; have := sq A; rewrite -subr_ge0 -/(composite A) -/(composite B).
set a := composite A in cr *; set b := composite B in cr *.
move: (norm1 A) (normoo A) (norm1 B) (normoo B) cr => x x' y y' cr sqA sqB.
have -> : (K * (a + b)) ^+ 2 - (x + y) * (x' + y') =
  (K ^+ 2 - 1) * (a - b) ^+ 2 + ((4%:R * K ^+ 2 - 2%:R) * (a * b) - (x * y' + y * x')).
  transitivity ((K * (a + b)) ^+ 2 - a ^+ 2 - b ^+ 2 - (x * y' + y * x')); last by ident.
  by rewrite sqA sqB; ident.
apply: addr_ge0; last by rewrite subr_ge0 K_sq addrK.
by apply: mulr_ge0; rewrite ?sqr_ge0 // subr_ge0 K_ge1.
Qed.

(* K exceeds 1 unless n = d = 1. *)
Theorem K_gt1 : (1 < n.+1 * d.+1)%N -> 1 < K.
Proof.
move=> nd1; rewrite -(ltr_sqr (ler01 : 0 <= 1)) ?qualifE ?K_ge0 // expr1n.
rewrite -(ltr_pmul2l (ltr0n R 4)) K_sq mulr1 -subr_gt0 K_minus.
rewrite divr_gt0 ?r_gt0 // exprn_even_gt0 //= subr_eq0; apply: contraTneq nd1 => r1.
have := sqr_sqrtr (ler0n R (n.+1 * d.+1)); rewrite -/nd r1 expr1n => /esym/eqP.
by rewrite pnatr_eq1 => /eqP ->.
Qed.
End QuasiNorm.

Section Sharp.
Variables (R : rcfType) (n d : nat).
Local Notation mat := 'M[R]_(n.+1, d.+1).
Local Notation nd := (nd R n d).
Local Notation K := (K R n d).
Local Notation r := (Num.sqrt nd).
Let r_gt0 : 0 < r := r_gt0 R n d.
Let K_sq : 4%:R * K ^+ 2 = r + r^-1 + 2%:R := K_sq R n d.

(* Step 3: attained by A = 1 e_1^T and B = s e_1 1^T, s = sqrt(n/d). *)
Definition G a b : mat := \matrix_(i, j) (a * (j == 0)%:R + b * (i == 0)%:R).
Lemma composite_G a b : 0 <= a -> 0 <= b ->
  composite (G a b) = Num.sqrt ((a * n.+1%:R + b) * (a + b * d.+1%:R)).
Proof.
move=> a0 b0; have abs i j : `|G a b i j| = a * (j == 0)%:R + b * (i == 0)%:R.
  by rewrite mxE ger0_norm // addr_ge0 // mulr_ge0 // ler0n.
have one m (c : R) : \sum_(k < m.+1) c * (k == 0)%:R = c.
  by rewrite (bigD1 0) //= mulr1 big1 ?addr0 // => k /negbTE ->; rewrite mulr0.
have col j : col_sum (G a b) j = a * n.+1%:R * (j == 0)%:R + b.
  rewrite /col_sum; under eq_bigr do rewrite abs; rewrite big_split one sumr_const card_ord /=.
  by rewrite -[_ *+ n.+1]mulr_natr mulrAC.
have row i : row_sum (G a b) i = a + b * d.+1%:R * (i == 0)%:R.
  rewrite /row_sum; under eq_bigr do rewrite abs; rewrite big_split one sumr_const card_ord /=.
  by rewrite -[_ *+ d.+1]mulr_natr mulrAC.
have bit (c : R) (e : bool) : 0 <= c -> c * e%:R <= c by case: e => c0; rewrite ?mulr1 ?mulr0.
rewrite /composite; congr (Num.sqrt (_ * _)); apply/le_anti/andP; split.
- by apply: max_le => [|j]; rewrite ?addr_ge0 ?mulr_ge0 ?ler0n // col ler_add2r bit //;
    rewrite mulr_ge0 ?ler0n.
- by apply: le_trans (max_ge _ 0); rewrite col eqxx mulr1.
- by apply: max_le => [|i]; rewrite ?addr_ge0 ?mulr_ge0 ?ler0n // row ler_add2l bit //;
    rewrite mulr_ge0 ?ler0n.
by apply: le_trans (max_ge _ 0); rewrite row eqxx mulr1.
Qed.

Lemma algebra (N D p q k : R) : 0 < N -> 0 < D -> 0 < p -> p ^+ 2 = N * D -> q ^+ 2 = N ->
  4%:R * k ^+ 2 = p + p^-1 + 2%:R ->
  (0 * N + p / D) * (0 + p / D * D) = N /\ (1 * N + p / D) * (1 + p / D * D) = (k * (q + q)) ^+ 2.
Proof.
move=> N0 D0 p0 pND qN kp; have D1 : D != 0 by rewrite gt_eqF.
have p1 : p != 0 by rewrite gt_eqF.
have pDD : p / D * D = p by rewrite divfK.
have pDp : p / D * p = N by rewrite mulrAC -expr2 pND mulfK.
have Np : N / p = p / D by rewrite -pDp mulfK.
split; first by rewrite pDD mul0r !add0r.
transitivity ((4%:R * k ^+ 2) * q ^+ 2); last by ident.
rewrite kp qN pDD; transitivity (N + N * p + p / D + p / D * p); first by ident.
by rewrite pDp -Np; ident.
Qed.

Theorem attained : let s := r / d.+1%:R in
  composite (G 1 0 + G 0 s) = K * (composite (G 1 0) + composite (G 0 s)) /\ 0 < composite (G 1 0).
Proof.
move=> s; have [N0 D0] : 0 < n.+1%:R :> R /\ 0 < d.+1%:R :> R by rewrite !ltr0n.
have s0 : 0 <= s by rewrite divr_ge0 ?ler0n ?sqrtr_ge0.
have K0 : 0 <= K := K_ge0 R n d.
have r2 : r ^+ 2 = n.+1%:R * d.+1%:R by rewrite sqr_sqrtr ?ler0n // /nd natrM.
have -> : G 1 0 + G 0 s = G 1 s by apply/matrixP => i j; rewrite !mxE; ident.
rewrite !composite_G ?ler01 //; have -> : (1 * n.+1%:R + 0) * (1 + 0 * d.+1%:R) = n.+1%:R :> R.
  by rewrite mul1r mul0r !addr0 mulr1.
have q2 := sqr_sqrtr (ltW N0); set q := Num.sqrt n.+1%:R in q2 *.
have [-> ->] := algebra N0 D0 r_gt0 r2 q2 K_sq; rewrite -/q; split; last by rewrite sqrtr_gt0.
by rewrite sqrtr_sqr ger0_norm // mulr_ge0 // addr_ge0 ?sqrtr_ge0.
Qed.
(* No smaller constant will do. *)
Theorem least k :
  (forall A B : mat, composite (A + B) <= k * (composite A + composite B)) -> K <= k.
Proof.
move=> all; have [att pos] := attained; set B := G 0 _ in att.
have sum0 : 0 < composite (G 1 0) + composite B by rewrite ltr_paddr ?sqrtr_ge0.
by have := all (G 1 0) B; rewrite att ler_pmul2r.
Qed.
End Sharp.
