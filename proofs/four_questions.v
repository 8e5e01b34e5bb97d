(* Page 3, "Four questions to a proof" (notebooks/path_decomposition/four_questions.ipynb).
   Propositions 3.10, 3.11, 3.4, 3.13, 3.14, Remark 3.15. The rest is in four_questions_2.v. *)
From mathcomp Require Import all_ssreflect all_algebra perm.
Require Import definitions exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* u tends to zero. *)
Definition to_zero (R : realFieldType) (u : nat -> R) :=
  forall eps, 0 < eps -> exists N, forall L, (N <= L)%N -> `|u L| < eps.
Definition to_infinity (R : realFieldType) (f : nat -> R) :=
  forall x, exists N, forall n, (N <= n)%N -> x < f n.
Definition archimedean (R : realFieldType) := forall x : R, exists k, x < k%:R.

(* Powers of a number below 1 tend to zero. *)
Lemma bernoulli (R : realFieldType) (y : R) k : 0 <= y -> 1 + k%:R * y <= (1 + y) ^+ k.
Proof.
move=> y0; elim: k => [|k IH]; first by rewrite mul0r addr0.
apply: le_trans (_ : (1 + y) * (1 + k%:R * y) <= _); last first.
  by rewrite exprS ler_wpmul2l // addr_ge0 // ler01.
rewrite mulrDl mul1r mulrDr mulr1 -[k.+1]addn1 natrD mulrDl mul1r [k%:R * y + y]addrC.
by rewrite addrA [1 + y + _]addrAC addrA ler_addl !mulr_ge0 // ler0n.
Qed.
Lemma powers (R : realFieldType) (q : R) : archimedean R -> 0 <= q -> q < 1 ->
  to_zero (fun m => q ^+ m).
Proof.
move=> arch q0 q1 eps eps0; move: q0; rewrite le_eqVlt => /predU1P[<-|q0].
  by exists 1%N => -[//|m] _; rewrite exprS mul0r normr0.
(* q = 1 / (1 + y), and (1 + y)^m >= 1 + m y > 1 / eps. *)
pose y := q^-1 - 1; have y0 : 0 < y by rewrite subr_gt0 invf_gt1.
have [k kx] := arch (eps^-1 / y); exists k => m km.
have y1 : 0 < 1 + y by rewrite addr_gt0 ?ltr01.
have -> : q = (1 + y)^-1 by rewrite /y addrC subrK invrK.
rewrite ger0_norm ?exprn_ge0 ?invr_ge0 ?(ltW y1) // exprVn -[eps]invrK.
rewrite ltf_pinv ?posrE ?invr_gt0 ?exprn_gt0 //.
apply: lt_le_trans (bernoulli m (ltW y0)); rewrite ltr_paddl ?ler01 //.
rewrite -ltr_pdivr_mulr //; apply: lt_le_trans kx _; by rewrite ler_nat.
Qed.
Lemma archimedean_rat : archimedean [realFieldType of rat].
Proof.
move=> x; exists (Num.bound `|x|); apply: le_lt_trans (ler_norm x) _; exact: archi_boundP.
Qed.

(* Proposition 3.10 (When the bound says something). The right side of (3.2). *)
Section RightSide.
Variables (R : realFieldType) (C rho : R).
Hypotheses (arch : archimedean R) (C0 : 0 < C) (rho0 : 0 <= rho).
Definition right_side L := C ^+ ((3 ^ L).-1)./2 * rho ^+ (3 ^ L).
(* The exponent m = (3^L - 1)/2 grows, and the right side is rho (C rho^2)^m. *)
Lemma exponent L : (3 ^ L)%N = (((3 ^ L).-1)./2).*2.+1.
Proof.
have o : odd (3 ^ L) by rewrite oddX orbT.
case: (3 ^ L)%N o => //= k; rewrite -[in k.+1](odd_double_half k) => /negbTE -> ; by rewrite add0n.
Qed.
Lemma exponent_grows L : (L <= ((3 ^ L).-1)./2)%N.
Proof.
suff : (L.*2.+1 <= 3 ^ L)%N by rewrite {1}exponent ltnS leq_double.
elim: L => // L IH; rewrite expnS doubleS; apply: leq_trans (_ : (3 * L.*2.+1 <= _)%N).
  by rewrite mulnS !addSn add0n !ltnS leq_pmull.
by rewrite leq_mul2l IH.
Qed.
Lemma right_sideE L : right_side L = rho * (C * rho ^+ 2) ^+ ((3 ^ L).-1)./2.
Proof. by rewrite /right_side {2}exponent exprS exprMn -exprM -mul2n mulrCA. Qed.
Theorem right_side_to_zero : to_zero right_side <-> C * rho ^+ 2 < 1.
Proof.
split=> [zero|q1 eps eps0].
  (* From C rho^2 >= 1 the right side stays at rho or above. *)
  rewrite ltNge; apply/negP => q1.
  have rp : 0 < rho.
    by rewrite lt_neqAle rho0 andbT; apply: contraTneq q1 => <-; rewrite expr0n mulr0 -ltNge ltr01.
  have [N /(_ N (leqnn N))] := zero rho rp.
  rewrite right_sideE ger0_norm ?mulr_ge0 ?exprn_ge0 ?mulr_ge0 ?sqr_ge0 ?(ltW C0) //.
  by rewrite ltNge ler_pmulr // exprn_ege1.
have q0 : 0 <= C * rho ^+ 2 by rewrite mulr_ge0 ?sqr_ge0 ?ltW.
have r1 : 0 < rho + 1 by rewrite ltr_paddl ?ltr01.
have [N small] := powers arch q0 q1 (divr_gt0 eps0 r1); exists N => L NL.
have := small _ (leq_trans NL (exponent_grows L)); rewrite right_sideE normrM ltr_pdivl_mulr //.
move: (`|_ ^+ _|) (normr_ge0 ((C * rho ^+ 2) ^+ ((3 ^ L).-1)./2)) => z z0 zr.
by apply: le_lt_trans zr; rewrite (ger0_norm rho0) mulrC ler_wpmul2l // ler_addl ler01.
Qed.
Theorem right_side_constant : C * rho ^+ 2 = 1 -> forall L, right_side L = rho.
Proof. by move=> q1 L; rewrite right_sideE q1 expr1n mulr1. Qed.
Theorem right_side_unbounded : 1 < C * rho ^+ 2 -> to_infinity right_side.
Proof.
move=> q1 x; have rp : 0 < rho.
  rewrite lt_neqAle rho0 andbT; apply: contraTneq q1 => <-.
  by rewrite expr0n mulr0 -leNgt ler01.
pose y := C * rho ^+ 2 - 1; have y0 : 0 < y by rewrite subr_gt0.
have [k kx] := arch (x / rho / y); exists k => L kL.
rewrite right_sideE mulrC -ltr_pdivr_mulr //.
have -> : C * rho ^+ 2 = 1 + y by rewrite /y addrC subrK.
apply: lt_le_trans (bernoulli _ (ltW y0)); rewrite ltr_paddl ?ler01 // -ltr_pdivr_mulr //.
by apply: lt_le_trans kx _; rewrite ler_nat (leq_trans kL) // exponent_grows.
Qed.
End RightSide.
Example right_side_met :
  to_zero (right_side 1 (1 / 2%:R : rat)) /\ ~ to_zero (right_side 1 (1 : rat)).
Proof.
split; first by apply: (proj2 (right_side_to_zero archimedean_rat _ _)).
by move/(proj1 (right_side_to_zero archimedean_rat ltr01 ler01)).
Qed.

(* Remark 3.15 (One logarithm or two). No rank is of both orders; log is any function that tends to
   infinity. *)
Section Orders.
Variable (R : realFieldType).
(* r = Theta(f) *)
Definition order (r f : nat -> R) := exists a b N, 0 < a /\
  forall n, (N <= n)%N -> a * f n <= r n /\ r n <= b * f n.
Theorem one_or_two (log r : nat -> R) : to_infinity log ->
  ~ (order r log /\ order r (fun n => log n * log n)).
Proof.
move=> inf [[a [b [N [a0 rl]]]] [a' [b' [N' [a'0 rl2]]]]].
have [M big] := inf (Num.max 0 (b / a')); pose n := maxn M (maxn N N').
have := big n (leq_maxl _ _); rewrite lt_maxl => /andP[l0 lb].
have [_ up] := rl n (leq_trans (leq_maxl _ _) (leq_maxr _ _)).
have [low _] := rl2 n (leq_trans (leq_maxr _ _) (leq_maxr _ _)).
have := le_trans low up; rewrite mulrA ler_pmul2r // leNgt.
by rewrite mulrC -ltr_pdivr_mulr // lb.
Qed.
End Orders.
(* The binary logarithm of a natural number, rounded down, tends to infinity. *)
Example one_or_two_met : to_infinity (fun n => (trunc_log 2 n)%:R : rat).
Proof.
move=> x; have [k xk] := archimedean_rat x; exists (2 ^ k)%N => n kn.
by apply: lt_le_trans xk _; rewrite ler_nat trunc_log_max.
Qed.

(* A normaliser: softmax along rows, with any positive function e in place of exp. *)
Section Softmax.
Variables (R : realFieldType) (e : R -> R).
Hypothesis e_gt0 : forall x, 0 < e x.
Lemma total_gt0 n (A : 'M[R]_n) (i : 'I_n) : 0 < \sum_k e (A i k).
Proof.
by rewrite (bigD1 i) //= ltr_paddr // sumr_ge0 // => k _; apply: ltW.
Qed.

(* Proposition 3.13 (Rows are divided from the left). s stands for 1 / sqrt(d_qk), D has the row
   sums on its diagonal. *)
Definition expA n (s : R) (A : 'M[R]_n) : 'M[R]_n := \matrix_(i, j) e (s * A i j).
Definition D_inv n (s : R) (A : 'M[R]_n) : 'M[R]_n :=
  diag_mx (\row_i (\sum_j expA s A i j)^-1).
Theorem from_the_left n s (A : 'M[R]_n) : softmax_rows e (s *: A) = D_inv s A *m expA s A.
Proof.
apply/matrixP => i j; rewrite mul_diag_mx softmax_rowsE !mxE mulrC; congr (_^-1 * _).
by apply: eq_bigr => k _; rewrite !mxE.
Qed.
(* A diagonal factor on the right does not give it in general: A = diag(0, x / s). *)
Theorem not_from_the_right s x : s != 0 -> e x != e 0 ->
  let A := diag_mx (\row_(j < 2) (if j == 0 then 0 else x / s)) in
  forall y : 'rV[R]_2, expA s A *m diag_mx y != softmax_rows e (s *: A).
Proof.
move=> s0 ex A y; apply: contraNneq ex => /matrixP eq.
have := eq 1 0; have := eq 0 0; rewrite !mul_mx_diag !softmax_rowsE !mxE !big_ord_recl !big_ord0 !mxE /=.
rewrite !mulr0n !mulr1n !mulr0 mulrCA divff // mulr1 !addr0 => -> /eqP.
have e0 := e_gt0 0; have e1 := e_gt0 x; rewrite eqr_div ?(lt0r_neq0 (addr_gt0 _ _)) //.
by rewrite (inj_eq (mulfI (lt0r_neq0 e0))) (inj_eq (addrI _)) // eq_sym.
Qed.
End Softmax.
(* In particular for exp. *)
Corollary not_from_the_right_exp (R : realFieldType) (exp : R -> R) s : exponential exp ->
  s != 0 -> exists A : 'M[R]_2, forall y, expA exp s A *m diag_mx y != softmax_rows exp (s *: A).
Proof.
move=> expE s0; eexists => y; apply: (not_from_the_right (exp_gt0 expE) s0 (x := 1)).
by rewrite (inj_eq (exp_inj expE)) oner_eq0.
Qed.
Example not_from_the_right_met :
  (forall x : rat, 0 < 1 + x ^+ 2) /\ 1 + 1 ^+ 2 != 1 + 0 ^+ 2 :> rat.
Proof. by split=> // x; rewrite ltr_paddr ?sqr_ge0. Qed.

(* Proposition 3.14 (Weights stand on the side of the features). Q = X W_Q, K = X W_K. *)
Theorem follow_reordering (F : fieldType) n d dqk (X : 'M[F]_(n, d)) (WQ WK : 'M[F]_(d, dqk))
  (s : 'S_n) : let Pi := perm_mx s in
  (Pi *m X *m WQ) *m (Pi *m X *m WK)^T = Pi *m (X *m WQ *m (X *m WK)^T) *m Pi^T.
Proof. by move=> Pi; rewrite !trmx_mul !mulmxA. Qed.
(* With Q = W_Q X, K = W_K X they do not: exchange the tokens (1, 2) and (3, 5). *)
Lemma mx2M (a b c d a' b' c' d' : rat) : mx2 a b c d *m mx2 a' b' c' d' =
  mx2 (a * a' + b * c') (a * b' + b * d') (c * a' + d * c') (c * b' + d * d').
Proof.
apply/matrixP => i j; rewrite !mxE !big_ord_recl big_ord0 addr0 !mxE /=.
by case: ifP => _; case: ifP.
Qed.
Lemma mx2T (a b c d : rat) : (mx2 a b c d)^T = mx2 a c b d.
Proof. by apply/matrixP => i j; rewrite !mxE; case: ifP; case: ifP. Qed.
Definition X : 'M[rat]_2 := mx2 1 2%:R 3%:R 5%:R.
Definition WQ : 'M[rat]_2 := mx2 1 2%:R 0 1.
Definition WK : 'M[rat]_2 := mx2 1 0 1 1.
Definition Pi : 'M[rat]_2 := perm_mx (tperm 0 1).
Theorem do_not_follow :
  (WQ *m (Pi *m X)) *m (WK *m (Pi *m X))^T != Pi *m (WQ *m X *m (WK *m X)^T) *m Pi^T.
Proof.
have -> : Pi = mx2 0 1 1 0.
  apply/matrixP => i j; rewrite !mxE.
  by case: i j => [[|[|]]] // i [[|[|]]] // j; rewrite permE.
rewrite /X /WQ /WK !(mx2M, mx2T); apply/eqP => /matrixP/(_ 0 0); rewrite !mxE /=.
by move/eqP; apply/negP.
Qed.
