(* Page 5, "Which paths do the work" (notebooks/path_decomposition/path_efficacy.ipynb).
   Proposition 5.4, Theorem 5.2, Theorem 5.3 (frozen part), Proposition 5.5.
   Paths, terms and the sums S_k are those of paths.v and paths_2.v; compile these first. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions paths paths_2.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 5.4 (Most paths are long). *)
Section Counts.
Variables (H : nat).
Local Notation paths_of L := (L.-tuple (option 'I_H)).
(* How many layers a path skips. *)
Definition skips (p : path H) : nat := count (fun o => o == None) p.
Lemma skips_length p : (length p + skips p = size p)%N.
Proof. by rewrite -(count_predC isSome p); congr (_ + _)%N; apply: eq_count => -[]. Qed.

(* (a) There are L H^(L-1) paths of length L - 1 and H^L of length L. *)
Lemma long_paths L : #|[set p : paths_of L.+1 | (L <= length p)%N]| = (H ^ L * (H + L.+1))%N.
Proof.
have -> : [set p : paths_of L.+1 | (L <= length p)%N] =
    [set p : paths_of L.+1 | length p == L] :|: [set p : paths_of L.+1 | length p == L.+1].
  apply/setP => p; rewrite !inE; have := skips_length p; rewrite size_tuple => pL.
  move: (length p) (skips p) pL => a c ac; have aL : (a <= L.+1)%N by rewrite -ac leq_addr.
  by rewrite leq_eqVlt eq_sym [a == L.+1]eqn_leq aL.
rewrite cardsU !lengths binn mul1n binSn (_ : _ :&: _ = set0) ?cards0 ?subn0.
  by rewrite expnSr mulnDr addnC [(L.+1 * _)%N]mulnC.
by apply/setP => p; rewrite !inE; case: eqP => // ->; rewrite ltn_eqF.
Qed.
(* The share (5.5); L - 1 is written L, so that L >= 1. *)
Theorem share (R : numFieldType) L :
  #|[set p : paths_of L.+1 | (L <= length p)%N]|%:R / #|{: paths_of L.+1}|%:R
  = H%:R ^+ L * (H%:R + L.+1%:R) / H.+1%:R ^+ L.+1 :> R.
Proof. by rewrite long_paths number_of_skip_paths natrM !natrX natrD. Qed.

(* (b) At most binom(L, t) (H+1)^(-t) of the paths skip t layers or more. *)
Lemma skip_count L t :
  (#|[set p : paths_of L | (t <= skips p)%N]| * H.+1 ^ t <= 'C(L, t) * H.+1 ^ L)%N.
Proof.
rewrite -sum1dep_card big_mkcond; elim: L t => [|l IH] [|t].
- by rewrite (sum_nil _ (fun p => if (0 <= skips p)%N then 1 else 0)%N).
- by rewrite (sum_nil _ (fun p => if (t.+1 <= skips p)%N then 1 else 0)%N).
- by rewrite expn0 muln1 bin0 mul1n sum_nat_const muln1 card_tuple card_option card_ord.
rewrite (sum_cons _ _ (fun p => if (t.+1 <= skips p)%N then 1 else 0)%N) (bigD1 None) //=.
(* Either the last layer is one of the t + 1, or it goes through one of the heads. *)
rewrite (reindex_omap (@Some 'I_H) id) => [|[h|]] //=.
rewrite [X in (_ + X)%N](eq_bigl xpredT) => [|h]; last by rewrite eqxx.
rewrite sum_nat_const card_ord mulnDl binS [('C(l, t.+1) + _)%N]addnC [X in (_ <= X)%N]mulnDl.
apply: leq_add.
  rewrite !expnS mulnCA [X in (_ <= X)%N]mulnCA leq_mul2l; apply/orP; right; exact: (IH t).
rewrite -mulnA [(H.+1 ^ l.+1)%N]expnS [X in (_ <= X)%N]mulnCA.
apply: leq_mul; [exact: leqnSn | exact: (IH t.+1)].
Qed.
Theorem skip_share (R : realFieldType) L t :
  #|[set p : paths_of L | (t <= skips p)%N]|%:R / #|{: paths_of L}|%:R
  <= ('C(L, t))%:R / H.+1%:R ^+ t :> R.
Proof.
rewrite number_of_skip_paths ler_pdivr_mulr -?natrX ?ltr0n ?expn_gt0 // mulrAC.
by rewrite ler_pdivl_mulr ?ltr0n ?expn_gt0 // -!natrM ler_nat skip_count.
Qed.

(* (c) No other length has more paths than L if and only if H >= L. *)
Theorem longest L :
  (forall k, (#|[set p : paths_of L | length p == k]| <= #|[set p : paths_of L | length p == L]|)%N)
  <-> (L <= H)%N.
Proof.
split=> [most|LH k]; rewrite ?lengths ?binn ?mul1n.
  case: L most => // L most; case: (posnP H) => H0.
    by have := most 0%N; rewrite !lengths binn mul1n bin0 H0 expn0 exp0n.
  by have := most L; rewrite !lengths binn mul1n binSn expnS leq_pmul2r // expn_gt0 H0.
case: (leqP k L) => [kL|Lk]; last by rewrite bin_small.
(* N_k / H^k = binom(L, L - k) <= L^(L-k) <= H^(L-k). *)
have bin_le m n : ('C(n, m) <= n ^ m)%N.
  apply: leq_trans (_ : (n ^_ m <= _)%N); first by rewrite -bin_ffact leq_pmulr ?fact_gt0.
  by elim: m => // m IH; rewrite ffactnSr expnSr leq_mul ?leq_subr.
rewrite -bin_sub // -[in X in (_ <= X)%N](subnK kL) expnD leq_mul2r; apply/orP; right.
by apply: leq_trans (bin_le _ _) _; case: (L - k)%N => // e; rewrite leq_exp2r.
Qed.
End Counts.
(* Twelve layers of twelve heads; and of eleven, where length 11 has more paths than 12. *)
Example longest_both : (12 <= 12)%N /\ ~ (12 <= 11)%N. Proof. by []. Qed.

(* Theorem 5.2 (Logits add, accuracies do not). *)
(* A row z of logits answers y rightly if all other classes have less. *)
Definition answers (R : realFieldType) C (z : 'I_C -> R) y := forall j, j != y -> z j < z y.
Lemma two_classes C (j j' y : 'I_C) : (C <= 2)%N -> j != y -> j' != y -> j' = j.
Proof.
case: C j j' y => [|[|[|//]]] j j' y _; first by case: j.
  by rewrite [j]ord1 [j']ord1.
by case: j j' y => [[|[|//]] ?] [[|[|//]] ?] [[|[|//]] ?] // _ _; apply: val_inj.
Qed.
Section Logits.
Variables (R : realFieldType) (H n d dv C : nat).
Variables (WV : nat -> 'I_H -> 'M[R]_(d, dv)) (WO : nat -> 'I_H -> 'M[R]_(dv, d)).
Variables (bV : nat -> 'I_H -> 'rV[R]_dv) (bO : nat -> 'rV[R]_d).
Variables (att : nat -> 'I_H -> 'M[R]_(n, d) -> 'M[R]_n) (L : nat) (X : 'M[R]_(n, d)).
(* A linear readout; Z_k and c^T of (5.1), and the logits Z of the network. *)
Variables (Out : 'M[R]_(d, C)) (r : 'rV[R]_C).
Let P := Pskip WV WO bV bO att X.
Hypothesis P1 : forall l h, (l < L)%N -> P l h *m one R n = one R n.
Definition Z k : 'M[R]_(n, C) := S WV WO P X L k *m Out.
Definition c : 'rV[R]_C := bs WV WO bV bO L *m Out + r.
Definition logits : 'M[R]_(n, C) := SANs WV WO bV bO att L X *m Out + one R n *m r.

(* (a) The logits are the sum of those of the lengths, and 1 c^T. *)
Theorem logits_add : logits = \sum_(k < L.+1) Z k + one R n *m c.
Proof.
rewrite /logits lengths_add_up // mulmxDl mulmx_suml -addrA; congr (_ + _).
by rewrite /c mulmxDr mulmxA.
Qed.
Lemma entry i j : logits i j = \sum_(k < L.+1) Z k i j + c 0 j.
Proof.
by rewrite logits_add mxE summxE; congr (_ + _); rewrite mxE big_ord1 !mxE mul1r.
Qed.

(* A length k answers alone with Z_k + 1 c^T. *)
Definition alone k i j := Z k i j + c 0 j.
Hypothesis no_side : forall j j', c 0 j = c 0 j'.
(* (b) What every length answers rightly the network answers rightly: margins add. *)
Theorem all_right i y : (forall k, (k <= L)%N -> answers (alone k i) y) -> answers (logits i) y.
Proof.
move=> right j jy; rewrite !entry (no_side j y) ltr_add2r.
have margin k : (k <= L)%N -> Z k i j < Z k i y.
  by move=> kL; have := right k kL j jy; rewrite /alone (no_side j y) ltr_add2r.
rewrite big_ord_recl [X in _ < X]big_ord_recl; apply: ltr_le_add; first exact: margin.
by apply: ler_sum => k _; apply: ltW; apply: margin; exact: ltn_ord.
Qed.
(* With two classes, what every length answers wrongly the network answers wrongly; wrong means
   not right, so a tie is wrong. *)
Theorem all_wrong i y : (C <= 2)%N ->
  (forall k, (k <= L)%N -> ~ answers (alone k i) y) -> ~ answers (logits i) y.
Proof.
move=> C2 wrong right; have /wrong[] := leq0n L => j jy.
have margin k : (k <= L)%N -> Z k i y <= Z k i j.
  move=> kL; rewrite leNgt; apply/negP => lt; apply: (wrong k kL) => j' j'y.
  by rewrite (two_classes C2 jy j'y) /alone (no_side j y) ltr_add2r.
have := right j jy; rewrite !entry (no_side j y) ltr_add2r ltNge.
by rewrite ler_sum // => k _; apply: margin; rewrite -ltnS.
Qed.
End Logits.

(* (c) With three classes or more every length can be wrong where the network is right: one token,
   one layer with one head, no biases, R = I, X = (2, 3, 0, ...), W = e1 e1^T + e2 e3^T. *)
Section EveryLengthWrong.
Variables (R : realFieldType) (m : nat).
Local Notation C := m.+3.
Definition X3 : 'rV[R]_C := \row_j (nth 0 [:: 2; 3] j)%N%:R.
Definition I3 (_ : nat) (_ : 'I_1) : 'M[R]_C := 1%:M.
Definition W3 (_ : nat) (_ : 'I_1) : 'M[R]_C :=
  \matrix_(i, j) (((i == 0%N :> nat) && (j == 0%N :> nat))
                  || ((i == 1%N :> nat) && (j == 2%N :> nat)))%:R.
Definition P3 (_ : nat) (_ : 'I_1) (_ : 'M[R]_(1, C)) : 'M[R]_1 := 1%:M.
Definition bV3 (_ : nat) (_ : 'I_1) : 'rV[R]_C := 0.
Definition bO3 (_ : nat) : 'rV[R]_C := 0.
Lemma XW j : (X3 *m W3 0 0) 0 j = (nth 0 [:: 2; 0; 3] j)%N%:R.
Proof.
rewrite mxE !big_ord_recl big1 ?addr0 => [|i _]; last by rewrite !mxE nth_default ?mul0r.
by rewrite !mxE /=; case: j => [[|[|[|j]]]] //= _; rewrite ?nth_nil ?mulr0 ?mulr1 ?addr0 ?add0r.
Qed.
(* Z_0 = (2, 3, 0, ...) and Z_1 = (2, 0, 3, 0, ...); the constant is 0. *)
Lemma Z3 k j : (k <= 1)%N -> Z I3 W3 bV3 bO3 P3 1 X3 1%:M k 0 j =
  (nth 0 (if k == 0 then [:: 2; 3] else [:: 2; 0; 3]) j)%N%:R.
Proof.
rewrite /Z mulmx1; case: k => [|[|//]] _ /=; first by rewrite addr0 mxE.
by rewrite big_ord1 add0r /Pskip mul1mx /W mul1mx XW.
Qed.
Lemma c3 : c (C := C) I3 W3 bV3 bO3 1 1%:M 0 = 0.
Proof. by rewrite /c /= big_ord1 /bO3 /bV3 !(mul0mx, addr0). Qed.
Lemma alone3 k j : (k <= 1)%N -> alone I3 W3 bV3 bO3 P3 1 X3 1%:M 0 k 0 j =
  (nth 0 (if k == 0 then [:: 2; 3] else [:: 2; 0; 3]) j)%N%:R.
Proof. by move=> k1; rewrite /alone c3 Z3 // mxE addr0. Qed.
Theorem every_length_wrong :
  [/\ forall l h, Pskip I3 W3 bV3 bO3 P3 X3 l h *m one R 1 = one R 1,
   (forall k, (k <= 1)%N -> ~ answers (alone I3 W3 bV3 bO3 P3 1 X3 1%:M 0 k 0) (0 : 'I_C)) &
   answers (logits I3 W3 bV3 bO3 P3 1 X3 1%:M 0 0) (0 : 'I_C)].
Proof.
have P1 l h : Pskip I3 W3 bV3 bO3 P3 X3 l h *m one R 1 = one R 1 by apply: mul1mx.
split=> // [[|[|//]] _ right|j j0].
(* Class 2 has 3 against 2 in Z_0, and class 3 in Z_1. *)
- by have := right (Ordinal (isT : 1 < m.+3)%N) isT; rewrite !alone3 // ltr_nat.
- by have := right (Ordinal (isT : 2 < m.+3)%N) isT; rewrite !alone3 // ltr_nat.
(* The sum (4, 3, 3, 0, ...) is right. *)
have c0 i : (0 : 'rV[R]_C) 0 i = 0 by rewrite mxE.
rewrite !entry // c3 !c0 !addr0 !big_ord_recl !big_ord0 !Z3 // !addr0 -!natrD ltr_nat.
by case: j j0 => [[|[|[|j]]]] //= _ _; rewrite !nth_default.
Qed.
(* The hypotheses of (b) are met: with W = I both lengths answer class 2 rightly. *)
Example all_right_met (y : 'I_C) : y = 1%N :> nat ->
  answers (logits I3 I3 bV3 bO3 P3 1 X3 1%:M 0 0) y.
Proof.
move=> y1; have c0 i : c (C := C) I3 I3 bV3 bO3 1 1%:M 0 0 i = 0.
  by rewrite /c /= big_ord1 /bO3 /bV3 !(mul0mx, addr0) mxE.
apply: all_right => [l h _|j j'|k k1 j jy]; rewrite ?c0 //; first exact: mul1mx.
have ZX i : Z I3 I3 bV3 bO3 P3 1 X3 1%:M k 0 i = (nth 0 [:: 2; 3] i)%N%:R.
  rewrite /Z mulmx1; case: k k1 => [|[|//]] _ /=; first by rewrite addr0 mxE.
  by rewrite big_ord1 add0r /Pskip mul1mx /W !mulmx1 mxE.
rewrite /alone !c0 !addr0 !ZX y1 ltr_nat; move: jy; rewrite -val_eqE /= y1.
by case: (j : nat) => [|[|k']] //= _; rewrite nth_nil.
Qed.
End EveryLengthWrong.

(* Theorem 5.3 (Length one is the first order), the frozen part: with head outputs multiplied by z
   the network is F(z) = sum_k z^k S_k, so its coefficient of z is S_1. *)
Section Frozen.
Variables (F : fieldType) (H n d dv : nat).
Variables (WV : nat -> 'I_H -> 'M[F]_(d, dv)) (WO : nat -> 'I_H -> 'M[F]_(dv, d)).
Variables (P : nat -> 'I_H -> 'M[F]_n) (X : 'M[F]_(n, d)).
Fixpoint Fz (z : F) L : 'M[F]_(n, d) :=
  if L is l.+1 then Fz z l + z *: \sum_h P l h *m Fz z l *m W WV WO l h else X.
Lemma S_big L k : (L < k)%N -> S WV WO P X L k = 0.
Proof.
elim: L k => [|l IH] [|k] //= lk; rewrite IH ?(ltnW lk) // add0r big1 // => h _.
by rewrite IH // mulmx0 mul0mx.
Qed.
Theorem frozen_powers z L : Fz z L = \sum_(k < L.+1) z ^+ k *: S WV WO P X L k.
Proof.
elim: L => [|l IH]; first by rewrite big_ord1 scale1r.
under eq_bigr do rewrite /= scalerDr; rewrite big_split /=; congr (_ + _).
  by rewrite IH [RHS]big_ord_recr /= S_big // scaler0 addr0.
rewrite big_ord_recl scaler0 add0r IH.
under [RHS]eq_bigr do rewrite exprS -scalerA; rewrite -scaler_sumr; congr (_ *: _).
under [RHS]eq_bigr do rewrite scaler_sumr; rewrite [RHS]exchange_big; apply: eq_bigr => h _ /=.
rewrite mulmx_sumr mulmx_suml; apply: eq_bigr => k _.
by rewrite -scalemxAr -scalemxAl.
Qed.
Theorem first_order L : S WV WO P X L 1 = \sum_(l < L) \sum_h P l h *m X *m W WV WO l h.
Proof.
have S0 l : S WV WO P X l 0 = X by elim: l => //= l ->; rewrite addr0.
elim: L => [|l IH]; first by rewrite big_ord0.
by rewrite big_ord_recr /= IH S0.
Qed.
End Frozen.

(* Of two classes that get the same logit none is the answer. *)
Example all_wrong_met (R : realFieldType) (i : 'I_1) (y : 'I_2)
  (W0 := fun (_ : nat) (_ : 'I_1) => 1%:M : 'M[R]_1) :
  ~ answers (logits W0 W0 (fun _ _ => 0) (fun _ => 0) (fun _ _ _ => 1%:M) 0 1%:M
    (0 : 'M_(1, 2)) 0 i) y.
Proof.
apply: (@all_wrong R 1 1 1 1 2) => // [j j'|k _ right].
  by rewrite /c mulmx0 addr0 !mxE.
have [j jy] : exists j : 'I_2, j != y.
  by case: (eqVneq y 0) => [->|y0]; [exists 1 | exists 0; rewrite eq_sym].
by have := right j jy; rewrite /alone /Z mulmx0 /c mulmx0 addr0 !mxE ltxx.
Qed.
