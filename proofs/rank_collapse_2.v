(* Page 2, "Rank collapse" (notebooks/path_decomposition/rank_collapse.ipynb), continued.
   Lemma 2.7, Theorem 2.3, Corollary 2.4. Compile five_theorems_one_matrix_3.v and
   four_questions.v first. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import exponential five_theorems_one_matrix five_theorems_one_matrix_3 definitions.
Require four_questions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Tanh.
Variables (R : realFieldType) (exp : R -> R).
Hypothesis expE : exponential exp.
Local Notation tanh := (tanh exp).

(* tanh z = (e^(2z) - 1) / (e^(2z) + 1). *)
Lemma tanh_double z : tanh z = (exp (2%:R * z) - 1) / (exp (2%:R * z) + 1).
Proof.
have e0 := exp_neq0 expE z; have p0 : exp z * exp z + 1 != 0.
  by rewrite gt_eqF // addr_gt0 ?mulr_gt0 ?(exp_gt0 expE) ?ltr01.
rewrite /tanh (expN expE) mulr_natl mulr2n (expD expE).
have s0 : exp z + (exp z)^-1 != 0 by rewrite gt_eqF // addr_gt0 ?invr_gt0 ?(exp_gt0 expE).
by field; rewrite p0 e0.
Qed.
Lemma tanh_ge0 z : 0 <= z -> 0 <= tanh z.
Proof.
move=> z0; have e1 : 1 <= exp (2%:R * z).
  by apply: le_trans (exp_ge expE _); rewrite ler_addl mulr_ge0 // ler0n.
by rewrite tanh_double divr_ge0 ?subr_ge0 // addr_ge0 ?ler01 // (le_trans ler01 e1).
Qed.
Lemma tanh_lt1 z : tanh z < 1.
Proof.
have e0 := exp_gt0 expE (2%:R * z).
rewrite tanh_double ltr_pdivr_mulr ?mul1r; last by rewrite addr_gt0 ?ltr01.
by rewrite ltr_add2l (lt_trans _ ltr01) // oppr_lt0 ltr01.
Qed.
Lemma tanh_mono x y : x <= y -> tanh x <= tanh y.
Proof.
move=> xy; rewrite !tanh_double; have a0 := exp_gt0 expE (2%:R * x).
have ab : exp (2%:R * x) <= exp (2%:R * y) by rewrite (exponential.exp_le expE) ler_pmul2l ?ltr0n.
move: (exp (2%:R * x)) (exp (2%:R * y)) a0 ab => a b a0 ab.
have b0 : 0 < b by apply: lt_le_trans ab.
rewrite ler_pdivr_mulr ?addr_gt0 ?ltr01 // mulrAC ler_pdivl_mulr ?addr_gt0 ?ltr01 //.
rewrite -subr_ge0; have -> : (b - 1) * (a + 1) - (a - 1) * (b + 1) = 2%:R * (b - a) by ring.
by rewrite mulr_ge0 ?ler0n // subr_ge0.
Qed.
(* e^(2z) <= (1 + z) / (1 - z), term by term: 2^k / k! <= 2. *)
Lemma exp_artanh z : 0 <= z -> z < 1 -> exp (2%:R * z) * (1 - z) <= 1 + z.
Proof.
move=> z0 z1; have d0 : 0 < 1 - z by rewrite subr_gt0.
rewrite -ler_pdivl_mulr //; apply: (tends_le (expE (2%:R * z))); exists 1%N => -[//|m] _.
have term k : (2%:R * z) ^+ k.+1 / k.+1`!%:R <= 2%:R * z ^+ k.+1.
  rewrite exprMn mulrAC ler_wpmul2r ?exprn_ge0 // ler_pdivr_mulr ?ltr0n ?fact_gt0 //.
  rewrite -natrX -natrM ler_nat; elim: k => // k IH.
  by rewrite expnS factS mulnCA leq_mul.
have geo k : (1 - z) * (\sum_(i < k) z ^+ i.+1) = z - z ^+ k.+1.
  elim: k => [|k IH]; first by rewrite big_ord0 mulr0 expr1 subrr.
  by rewrite big_ord_recr /= mulrDr IH !exprS; ring.
rewrite ler_pdivl_mulr // /partial big_ord_recl expr0 -[0`!]/1%N divr1.
apply: le_trans (_ : (1 + 2%:R * \sum_(i < m) z ^+ i.+1) * (1 - z) <= _).
  rewrite ler_pmul2r // ler_add2l mulr_sumr; apply: ler_sum => i _; exact: term.
rewrite mulrDl mul1r -mulrA [_ * (1 - z)]mulrC geo.
have -> : 1 - z + 2%:R * (z - z ^+ m.+1) = 1 + z - 2%:R * z ^+ m.+1 by ring.
by rewrite ger_addl oppr_le0 mulr_ge0 ?exprn_ge0 ?ler0n.
Qed.
Lemma tanh_le z : 0 <= z -> tanh z <= z.
Proof.
move=> z0; have [z1|z1] := leP 1 z; first by apply: le_trans z1; apply: ltW; apply: tanh_lt1.
have e0 := exp_gt0 expE (2%:R * z); rewrite tanh_double ler_pdivr_mulr ?addr_gt0 ?ltr01 //.
have := exp_artanh z0 z1; move: (exp _) => a le; rewrite -subr_ge0.
by have -> : z * (a + 1) - (a - 1) = 1 + z - a * (1 - z) by [ring]; rewrite subr_ge0.
Qed.
End Tanh.

(* Lemma 2.7 (A small spread): s = softmax(r) and p = softmax(r + e), where the entries of e lie in an
   interval of length eta. *)
Section Spread.
Variables (R : realFieldType) (exp : R -> R) (n : nat).
Hypothesis expE : exponential exp.
Let exp_gt0 := exp_gt0 expE.
Variables (r e : 'I_n.+1 -> R) (eta : R).
Hypothesis spread_e : forall j k, e j - e k <= eta.
Local Notation s := (softmax exp r).
Local Notation p := (softmax exp (fun j => r j + e j)).
Lemma total_gt0 (l : 'I_n.+1 -> R) : 0 < \sum_j exp (l j).
Proof. by rewrite big_ord_recl ltr_paddr ?exp_gt0 // sumr_ge0 // => j _; apply: ltW. Qed.
Lemma softmax_gt0 (l : 'I_n.+1 -> R) j : 0 < softmax exp l j.
Proof. by rewrite divr_gt0 ?total_gt0. Qed.
Lemma softmax_sum (l : 'I_n.+1 -> R) : \sum_j softmax exp l j = 1.
Proof. by rewrite -mulr_suml divff // gt_eqF // total_gt0. Qed.
Let Z := \sum_k s k * exp (e k).
Lemma Z_gt0 : 0 < Z.
Proof.
have pos j : 0 < s j * exp (e j) by rewrite mulr_gt0 ?softmax_gt0.
by rewrite /Z big_ord_recl ltr_paddr ?pos // sumr_ge0 // => j _; apply: ltW.
Qed.
Lemma p_of_s j : p j = s j * exp (e j) / Z.
Proof.
have t0 : \sum_k exp (r k) != 0 by rewrite gt_eqF // total_gt0.
have ZE : Z = (\sum_k exp (r k + e k)) / \sum_k exp (r k).
  by rewrite /Z mulr_suml; apply: eq_bigr => k _; rewrite /softmax mulrAC (expD expE).
have t1 : \sum_k exp (r k + e k) != 0 by rewrite gt_eqF // total_gt0.
rewrite ZE /softmax (expD expE).
move: (\sum_k exp (r k)) (\sum_k exp (r k + e k)) t0 t1 => a b a0 b0.
by field; rewrite a0 b0.
Qed.
Theorem entrywise j : exp (- eta) * s j <= p j /\ p j <= exp eta * s j.
Proof.
have s0 := softmax_gt0 r; have s1 := softmax_sum r.
have sum c : \sum_k s k * c = c by rewrite -mulr_suml s1 mul1r.
have Z0 := Z_gt0; rewrite p_of_s ler_pdivl_mulr // ler_pdivr_mulr //; split.
  rewrite mulrAC [X in _ <= X]mulrC ler_pmul2r //; rewrite mulr_sumr -[exp (e j)]sum.
  apply: ler_sum => k _; rewrite mulrCA ler_pmul2l // -(expD expE) (exponential.exp_le expE).
  by rewrite addrC ler_subl_addr -ler_subl_addl spread_e.
rewrite [X in _ <= X]mulrAC [X in X <= _]mulrC ler_pmul2r //; rewrite mulr_sumr -[exp (e j)]sum.
apply: ler_sum => k _; rewrite mulrCA ler_pmul2l // -(expD expE) (exponential.exp_le expE).
by rewrite -ler_subl_addr spread_e.
Qed.
(* Half the absolute sum of p - s: the gain of the set A of the entries that grow. *)
Theorem half_sum : 2%:R^-1 * (\sum_j `|p j - s j|) <= tanh exp (eta / 4%:R).
Proof.
have s0 := softmax_gt0 r; have s1 := softmax_sum r; have p1 := softmax_sum (fun j => r j + e j).
pose A j := s j < p j; pose a := \sum_(j | A j) s j; pose b := \sum_(j | ~~ A j) s j.
have ab : a + b = 1 by rewrite -s1 [in RHS](bigID A).
have -> : \sum_j `|p j - s j| = 2%:R * \sum_(j | A j) (p j - s j).
  have zero : \sum_(j | ~~ A j) (p j - s j) = - \sum_(j | A j) (p j - s j).
    have : \sum_j (p j - s j) = 0 by rewrite sumrB p1 s1 subrr.
    by rewrite (bigID A) /= => /eqP; rewrite addr_eq0 => /eqP ->; rewrite opprK.
  rewrite (bigID A) /= mulr_natl mulr2n; congr (_ + _).
    by apply: eq_bigr => j Aj; rewrite gtr0_norm // subr_gt0.
  rewrite -[RHS]opprK -zero -sumrN; apply: eq_bigr => j; rewrite /A -leNgt => pj.
  by rewrite ler0_norm // subr_le0.
rewrite mulrA mulVf ?pnatr_eq0 // mul1r sumrB -/a.
pose X := \sum_(j | A j) s j * exp (e j); pose Y := \sum_(j | ~~ A j) s j * exp (e j).
have ZXY : Z = X + Y by rewrite /Z (bigID A).
have -> : \sum_(j | A j) p j = X / Z.
  by rewrite /X mulr_suml; apply: eq_bigr => j _; rewrite p_of_s.
have a0 : 0 <= a by apply: sumr_ge0 => j _; apply: ltW.
have b0 : 0 <= b by apply: sumr_ge0 => j _; apply: ltW.
have [jm _ low] : exists2 j : 'I_n.+1, true & forall k, e j <= e k.
  by case: (@arg_minP _ _ _ ord0 predT e isT) => j _ h; exists j => // k; apply: h.
set m := e jm in low; have Xa : X <= a * (exp m * exp eta).
  rewrite /a mulr_suml; apply: ler_sum => j _; rewrite ler_pmul2l // -(expD expE) (exponential.exp_le expE).
  by rewrite -ler_subl_addl spread_e.
have Yb : b * exp m <= Y.
  by rewrite /b mulr_suml; apply: ler_sum => j _; rewrite ler_pmul2l // (exponential.exp_le expE).
rewrite tanh_double //; have -> : 2%:R * (eta / 4%:R) = eta / 2%:R by field.
set u := exp (eta / 2%:R); have uu : exp eta = u * u by rewrite -(expD expE) -splitr.
have eta0 : 0 <= eta by have := spread_e ord0 ord0; rewrite subrr.
have u1 : 1 <= u by apply: le_trans (exp_ge expE _); rewrite ler_addl divr_ge0 ?ler0n.
have u0 : 0 < u + 1 by rewrite ltr_paddr ?ler01 // exp_gt0.
rewrite -subr_ge0 -(pmulr_lge0 _ u0) -(pmulr_lge0 _ Z_gt0) mulrBl divfK ?gt_eqF //.
have -> : (u - 1 - (X / Z - a) * (u + 1)) * Z = (u - 1 + a * (u + 1)) * Z - X * (u + 1).
  have -> : X = X / Z * Z by rewrite divfK // gt_eqF // Z_gt0.
  by move: (X / Z) => q; rewrite mulfK ?gt_eqF ?Z_gt0 //; ring.
rewrite ZXY; set M := exp m in Xa Yb; have M0 : 0 < M := exp_gt0 m.
have -> : (u - 1 + a * (u + 1)) * (X + Y) - X * (u + 1) =
    (u - 1 + a * (u + 1)) * Y - X * (2%:R - a * (u + 1)) by ring.
rewrite subr_ge0; have w0 : 0 <= u - 1 + a * (u + 1).
  by rewrite addr_ge0 ?subr_ge0 // mulr_ge0 // ltW.
have Y0 : 0 <= Y by apply: le_trans Yb; rewrite mulr_ge0 // ltW.
have X0 : 0 <= X by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?ltW ?exp_gt0.
have [neg|pos] := leP (2%:R - a * (u + 1)) 0.
  by apply: le_trans (mulr_ge0 w0 Y0); rewrite mulr_ge0_le0.
apply: le_trans (ler_wpmul2r (ltW pos) Xa) _; apply: le_trans (ler_wpmul2l w0 Yb).
rewrite uu -subr_ge0; have -> : b = 1 - a by rewrite -ab addrC addKr.
have -> : (u - 1 + a * (u + 1)) * ((1 - a) * M) - a * (M * (u * u)) * (2%:R - a * (u + 1)) =
    M * ((u - 1) * (1 - a * (u + 1)) ^+ 2) by ring.
by rewrite mulr_ge0 ?(ltW M0) // mulr_ge0 ?sqr_ge0 // subr_ge0.
Qed.
End Spread.

(* Theorem 2.3 (Contraction). *)
Section Contraction.
Variables (R : realFieldType) (exp : R -> R) (n : nat).
Hypothesis expE : exponential exp.
Local Notation attention := (softmax_rows exp).
(* Delta bounds how far two rows of logits differ, up to what is constant along a row. *)
Definition row_spread (A : 'M[R]_n.+1) Delta :=
  forall i k j l, (A i j - A k j) - (A i l - A k l) <= Delta.
Lemma attention_stochastic (A : 'M[R]_n.+1) : stochastic (attention A).
Proof.
split=> [i j|i]; first by rewrite mxE ltW // softmax_gt0.
by under eq_bigr do rewrite mxE; apply: softmax_sum.
Qed.
Lemma attention_tv A Delta i k : row_spread A Delta -> tv (attention A) i k <= tanh exp (Delta / 4%:R).
Proof.
move=> rows; pose e j := A i j - A k j.
have := @half_sum R exp n expE (fun j => A k j) e Delta (fun j l => rows i k j l).
congr (_ <= _); rewrite /tv; congr (_ * _); apply: eq_bigr => j _; rewrite !mxE.
congr `|_ - _|; rewrite /softmax; congr (_ / _); first by rewrite /e addrC subrK.
by apply: eq_bigr => l _; rewrite /e addrC subrK.
Qed.
(* (a), for tokens x with any norm: it brings them together by tanh(Delta/4). *)
Section Tokens.
Variables (V : lmodType R) (len : V -> R).
Hypothesis lenD : forall u v, len (u + v) <= len u + len v.
Hypothesis lenZ : forall a u, len (a *: u) = `|a| * len u.
Theorem together A Delta x D : row_spread A Delta -> 0 <= D ->
  (forall k l, len (x k - x l) <= D) -> forall i k,
  len (mix (attention A) x i - mix (attention A) x k) <= tanh exp (Delta / 4%:R) * D.
Proof.
move=> rows D0 near i k.
apply: le_trans (contraction_rows lenD lenZ i k (attention_stochastic A) D0 near) _.
by apply: ler_wpmul2r => //; apply: attention_tv.
Qed.
End Tokens.
(* (a) *)
Theorem column A Delta (y : 'cV[R]_n.+1) D : row_spread A Delta -> 0 <= D ->
  (forall k l, y k 0 - y l 0 <= D) ->
  forall i k, (attention A *m y) i 0 - (attention A *m y) k 0 <= tanh exp (Delta / 4%:R) * D.
Proof.
move=> rows D0 near i k; apply: le_trans (ler_norm _) _.
have := @together (GRing.regular_lmodType R) (fun v => `|v|) (@ler_norm_add _ R)
  (fun a u => normrM a u) A Delta (fun j => y j 0 : R) D rows D0 _ i k.
rewrite /mix !mxE; apply => a b; rewrite ler_norml near andbT.
by rewrite ler_oppl opprB near.
Qed.

(* (b) A layer without skip: heads with logits s (x_i W_Q + b_Q) (x_j W_K + b_K)^T, values and outputs W_h
   and a row b; s stands for 1 / sqrt(d_qk). *)
Variables (d dqk H : nat).
Local Notation head := (attention_head R d dqk).
Variables (s : R) (len : 'rV[R]_d -> R).
Hypothesis lenD : forall u v, len (u + v) <= len u + len v.
Hypothesis lenZ : forall a u, len (a *: u) = `|a| * len u.
Implicit Types (x : 'I_n.+1 -> 'rV[R]_d).
Definition logits (w : head) x : 'M[R]_n.+1 := \matrix_(i, j) score s w (x i) (x j).
Definition layer (w : 'I_H -> head) (b : 'rV[R]_d) x i :=
  \sum_h mix (attention (logits (w h) x)) x i *m W (w h) + b.
(* omega bounds W_QK / sqrt(d_qk) as a bilinear form, v bounds W as an operator; the least such numbers are
   the 2-norms. *)
Definition bounded (w : head) omega v :=
  (forall y z : 'rV[R]_d, s * (y *m (WQ w *m (WK w)^T) *m z^T) 0 0 <= omega * len y * len z) /\
  forall z : 'rV[R]_d, len (z *m W w) <= v * len z.
Lemma len_nonneg u : 0 <= len u. Proof. exact: len_ge0. Qed.
Lemma logits_spread w x omega v delta : bounded w omega v -> 0 <= omega ->
  (forall i k, len (x i - x k) <= delta) -> row_spread (logits w x) (omega * delta ^+ 2).
Proof.
move=> [bil _] om0 near i k j l.
have -> : logits w x i j - logits w x k j - (logits w x i l - logits w x k l) =
    s * ((x i - x k) *m (WQ w *m (WK w)^T) *m (x j - x l)^T) 0 0.
  have E a b : logits w x a b = s * ((x a *m WQ w + bQ w) *m (x b *m WK w + bK w)^T) 0 0 by rewrite mxE.
  rewrite !E -!mulrBr; congr (s * _).
  pose P a := x a *m WQ w + bQ w; pose Q a := x a *m WK w + bK w.
  have -> : (x i - x k) *m (WQ w *m (WK w)^T) *m (x j - x l)^T = (P i - P k) *m (Q j - Q l)^T.
    have -> : P i - P k = (x i - x k) *m WQ w by rewrite /P mulmxBl opprD addrACA subrr addr0.
    have -> : Q j - Q l = (x j - x l) *m WK w by rewrite /Q mulmxBl opprD addrACA subrr addr0.
    by rewrite trmx_mul !mulmxA.
  rewrite -/(P i) -/(P k) -/(Q j) -/(Q l) linearB /= mulmxBr !mulmxBl.
  have sub1 (M N : 'M[R]_1) : (M - N) 0 0 = M 0 0 - N 0 0 by rewrite !mxE.
  rewrite !sub1; ring.
apply: le_trans (bil _ _) _; rewrite expr2 mulrA.
have dl : 0 <= delta by apply: le_trans (near i i); apply: len_nonneg.
apply: ler_pmul => //; rewrite ?mulr_ge0 ?len_nonneg //.
by rewrite ler_wpmul2l.
Qed.
Theorem layer_contracts (w : 'I_H -> head) b x (omega v : 'I_H -> R) delta :
  (forall h, [/\ bounded (w h) (omega h) (v h), 0 <= omega h & 0 <= v h]) ->
  (forall i k, len (x i - x k) <= delta) -> forall i k,
  len (layer w b x i - layer w b x k) <=
    (\sum_h v h * tanh exp (omega h * delta ^+ 2 / 4%:R)) * delta.
Proof.
move=> wP near i k; have dl : 0 <= delta by apply: le_trans (near i i); apply: len_nonneg.
rewrite /layer opprD addrACA subrr addr0 -sumrB mulr_suml.
elim/big_ind2: _ => [||h _].
- by rewrite (len0 lenZ).
- by move=> u r u' r' ur ur'; apply: le_trans (lenD _ _) (ler_add ur ur').
have [[bil op] om0 v0] := wP h; rewrite -mulmxBl; apply: le_trans (op _) _.
rewrite -mulrA ler_wpmul2l //; apply: together => //.
exact: (logits_spread (conj bil op) om0 near).
Qed.

(* (c) The number c bounds the layer: sum_h v_h omega_h <= 4 c. *)
Definition small_heads (w : 'I_H -> head) (c : R) := exists omega v : 'I_H -> R,
  (forall h, [/\ bounded (w h) (omega h) (v h), 0 <= omega h & 0 <= v h]) /\
  \sum_h v h * omega h <= 4%:R * c.
Theorem layer_cubes w b x c delta : small_heads w c ->
  (forall i k, len (x i - x k) <= delta) -> forall i k,
  len (layer w b x i - layer w b x k) <= c * delta ^+ 3.
Proof.
move=> [omega [v [wP small]]] near i k.
have dl : 0 <= delta by apply: le_trans (near i i); apply: len_nonneg.
apply: le_trans (layer_contracts b wP near i k) _.
rewrite [delta ^+ 3]exprSr [c * _]mulrA ler_wpmul2r //.
apply: le_trans (_ : \sum_h v h * omega h * (delta ^+ 2 / 4%:R) <= _).
  apply: ler_sum => h _; have [_ om0 v0] := wP h.
  rewrite -[X in _ <= X]mulrA ler_wpmul2l // [omega h * (_ / _)]mulrA.
  by apply: tanh_le => //; rewrite divr_ge0 ?mulr_ge0 ?sqr_ge0 ?ler0n.
rewrite -mulr_suml; apply: le_trans (ler_wpmul2r _ small) _.
  by rewrite divr_ge0 ?sqr_ge0 ?ler0n.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; field.
Qed.
Variables (w : nat -> 'I_H -> head) (b : nat -> 'rV[R]_d) (x0 : 'I_n.+1 -> 'rV[R]_d).
Fixpoint state L := if L is l.+1 then layer (w l) (b l) (state l) else x0.
Theorem cubic c delta L : 0 <= c -> (forall l, small_heads (w l) c) ->
  (forall i k, len (x0 i - x0 k) <= delta) -> forall i k,
  len (state L i - state L k) <= four_questions.right_side c delta L.
Proof.
move=> c0 small near; have dl : 0 <= delta by apply: le_trans (near ord0 ord0); apply: len_nonneg.
elim: L => [|l IH] i k; first by rewrite /four_questions.right_side /= mul1r expr1; apply: near.
apply: le_trans (layer_cubes (b l) (small l) IH i k) _.
rewrite !four_questions.right_sideE; set m := ((3 ^ l).-1)./2; set q := c * delta ^+ 2.
have -> : ((3 ^ l.+1).-1)./2 = (3 * m).+1.
  rewrite expnS {1}four_questions.exponent -/m mulnS -mul2n mulnCA mul2n.
  by rewrite -[(3 + _).-1]/((3 * m).*2.+2) -doubleS doubleK.
rewrite [q ^+ (3 * m).+1]exprS [(3 * m)%N]mulnC exprM; move: (q ^+ m) => r.
by rewrite /q -subr_ge0 (_ : _ - _ = 0) //; ring.
Qed.
(* One head in each layer, and v tanh(omega delta^2 / 4) < 1, which holds for v <= 1: the tokens collapse. *)
Theorem collapse v omega delta : (forall l h, bounded (w l h) omega v) -> H = 1%N ->
  0 <= v -> 0 <= omega -> (v <= 1 \/ v * tanh exp (omega * delta ^+ 2 / 4%:R) < 1) ->
  (forall i k, len (x0 i - x0 k) <= delta) ->
  forall eps, 0 < eps -> exists N, forall L, (N <= L)%N -> forall i k,
  len (state L i - state L k) < eps.
Proof.
move=> wP H1 v0 om0 sharp near eps eps0.
have dl : 0 <= delta by apply: le_trans (near ord0 ord0); apply: len_nonneg.
set t := tanh exp (omega * delta ^+ 2 / 4%:R) in sharp.
have t0 : 0 <= t by apply: tanh_ge0 => //; rewrite divr_ge0 ?mulr_ge0 ?sqr_ge0 ?ler0n.
have q1 : v * t < 1.
  case: sharp => // v1; apply: le_lt_trans (ler_wpmul2r t0 v1) _; rewrite mul1r; exact: tanh_lt1.
have q0 : 0 <= v * t by rewrite mulr_ge0.
have geo L i k : len (state L i - state L k) <= (v * t) ^+ L * delta.
  elim: L i k => [|l IH] i k; first by rewrite mul1r; apply: near.
  have ql : (v * t) ^+ l * delta <= delta.
    by rewrite ler_pimull // exprn_ile1 // ltW.
  have wl h : [/\ bounded (w l h) omega v, 0 <= omega & 0 <= v] by [].
  apply: le_trans (layer_contracts (b l) wl IH i k) _.
  rewrite [(v * t) ^+ l.+1]exprS -[X in _ <= X]mulrA.
  rewrite ler_wpmul2r ?(mulr_ge0 (exprn_ge0 _ q0) dl) // sumr_const card_ord H1 mulr1n.
  rewrite ler_wpmul2l //; apply: tanh_mono => //.
  rewrite ler_pmul2r ?invr_gt0 ?ltr0n // ler_wpmul2l //.
  by rewrite ler_expn2r ?nnegrE ?mulr_ge0 ?exprn_ge0.
have d1 : 0 < delta + 1 by rewrite ltr_paddl ?ltr01.
have arch := exp_archimedean expE.
have [N small] := four_questions.powers arch q0 q1 (divr_gt0 eps0 d1).
exists N => L NL i k; apply: le_lt_trans (geo L i k) _.
have := small L NL; rewrite ger0_norm ?exprn_ge0 // ltr_pdivl_mulr // => le.
by apply: le_lt_trans le; rewrite ler_wpmul2l ?exprn_ge0 // ler_addl ler01.
Qed.

(* Corollary 2.4 (The cube): c delta'^2 <= (c delta^2)^3, and what that says of its logarithm. *)
Theorem cube (wl : 'I_H -> head) bl x c delta delta' : 0 < c -> small_heads wl c ->
  (forall i k, len (x i - x k) <= delta) ->
  (exists i k, len (layer wl bl x i - layer wl bl x k) = delta') ->
  c * delta' ^+ 2 <= (c * delta ^+ 2) ^+ 3 /\
  forall ln, logarithm exp ln -> 0 < delta' ->
  3%:R * - ln (c * delta ^+ 2) <= - ln (c * delta' ^+ 2).
Proof.
move=> c0 small near [i [k e]]; have d'0 : 0 <= delta' by rewrite -e len_nonneg.
have le : delta' <= c * delta ^+ 3 by rewrite -e layer_cubes.
have cube : c * delta' ^+ 2 <= (c * delta ^+ 2) ^+ 3.
  apply: le_trans (_ : c * (c * delta ^+ 3) ^+ 2 <= _); last first.
    by rewrite -subr_ge0 (_ : _ - _ = 0) //; ring.
  by rewrite ler_pmul2l // ler_expn2r ?nnegrE // (le_trans d'0).
split=> // ln lnE dp; rewrite mulrN ler_opp2.
have q0 : 0 < c * delta' ^+ 2 by rewrite mulr_gt0 // exprn_gt0.
have p0 : 0 < c * delta ^+ 2.
  have pos : 0 < (c * delta ^+ 2) ^+ 3 by apply: lt_le_trans cube.
  rewrite lt_neqAle eq_sym mulr_ge0 ?sqr_ge0 ?(ltW c0) // andbT.
  by apply: contraTneq pos => ->; rewrite expr0n ltxx.
rewrite -(exponential.exp_le expE) (exponential.lnK lnE) // (exp_nat expE) (exponential.lnK lnE) //.
Qed.
End Contraction.

(* Two tokens attain (a), (b) and the condition in (c): a layer of one head multiplies them by
   v tanh(omega delta^2 / 4). *)
Section TwoTokens.
Variables (R : realFieldType) (exp : R -> R) (delta omega v : R).
Hypothesis expE : exponential exp.
Definition place (i : 'I_2) : R := if i == 0 then delta / 2%:R else - (delta / 2%:R).
Definition two (i : 'I_2) : 'rV[R]_1 := (place i)%:M.
Definition two_head (_ : 'I_1) : attention_head R 1 1 := Head 1%:M omega%:M 0 0 v%:M.
Theorem two_tokens i :
  layer exp 1 two_head 0 two i = (v * tanh exp (omega * delta ^+ 2 / 4%:R)) *: two i.
Proof.
have L h a b : logits 1 (two_head h) two a b = omega * (place a * place b).
  rewrite mxE /score /= mulmx1 !addr0 -scalar_mxM tr_scalar_mx -scalar_mxM mxE eqxx mulr1n.
  by ring.
set t := omega * delta ^+ 2 / 4%:R.
have same : omega * (delta / 2%:R * (delta / 2%:R)) = t by rewrite /t; field.
have e0 := exp_gt0 expE t; have e1 := exp_gt0 expE (- t).
have s0 : exp t + exp (- t) != 0 by rewrite gt_eqF ?addr_gt0.
have s1 : exp (- t) + exp t != 0 by rewrite addrC.
rewrite /layer big_ord1 addr0 /mix !big_ord_recl big_ord0 addr0 !mxE /softmax.
rewrite !big_ord_recl !big_ord0 !addr0 !L /two /place /=.
rewrite !scale_scalar_mx -raddfD /= -scalar_mxM; congr (_%:M).
have tanhE : tanh exp t = (exp t - exp (- t)) / (exp t + exp (- t)).
  by [].
rewrite tanhE; case: (i == 0); rewrite !(mulrN, mulNr, opprK) same.
  by move: (exp t) (exp (- t)) s0 => a b ab; field.
by move: (exp t) (exp (- t)) s1 => a b ab; field; rewrite addrC.
Qed.
End TwoTokens.
